package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"hermes/envs"
	"hermes/internal/late"
)

// packet is any message of the protocol: a request, a notification or an answer.
type packet struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Nested  bool            `json:"nested,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *fault          `json:"error,omitempty"`
}

// fault is the error of an answer.
type fault struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// The codes of errors.
const (
	codeUnscored = -32001 // the task has nothing to be judged by
	codeMethod   = -32601
	codeCallback = -32010 // what the program asked for did not work
)

// Fault is an error that the program answered: its author's to mend.
type Fault struct {
	Method  string
	Code    int
	Message string
	Trace   string // of the program, bounded
}

func (f *Fault) Error() string {
	text := fmt.Sprintf("the environment's %s: %s", f.Method, f.Message)
	if f.Trace != "" {
		text += "\n" + f.Trace
	}
	return text
}

// Is makes it known as the environment's, and as "has no grader" where that is meant.
func (f *Fault) Is(target error) bool {
	return target == envs.ErrFailed || target == envs.ErrUnscored && f.Code == codeUnscored
}

// asFault reads the error of an answer.
func asFault(method string, e *fault) *Fault {
	f := &Fault{Method: method, Code: e.Code, Message: clip(e.Message, 2000)}
	var data struct {
		Trace string `json:"trace"`
	}
	if json.Unmarshal(e.Data, &data) == nil {
		f.Trace = clip(data.Trace, 4000)
	}
	return f
}

// errLost says that a program is gone, or speaks no more; what it was asked can be asked
// again elsewhere.
var errLost = broken("the environment's program is lost")

// brokenError is a breach of the protocol or a program that does not answer: the author's
// to mend, and the same again if it is asked again.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error        { return e.error }
func (e *brokenError) Is(target error) bool { return target == envs.ErrFailed }

func broken(format string, args ...any) error { return &brokenError{fmt.Errorf(format, args...)} }

// encode writes a message as one line. The order of the keys is part of the protocol, so
// that a shell script can read it: jsonrpc, id, method.
func encode(p packet) ([]byte, error) {
	p.Version = "2.0"
	return compact(p)
}

// compact is JSON without the escapes of HTML, ended by a newline.
func compact(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// request encodes a request. Its params are encoded once, for all tries.
func request(id int64, method string, nested bool, params json.RawMessage) ([]byte, error) {
	return encode(packet{ID: strconv.AppendInt(nil, id, 10), Method: method, Nested: nested, Params: params})
}

var notNumbers = late.Regexp(`-?\b(?:NaN|nan|Infinity|inf)\b`)

// errNotFinite is an answer with a number that JSON does not have.
var errNotFinite = errors.New("NaN and Infinity are no JSON")

// decode reads one line. Where nothing but NaN or Infinity is wrong, the packet is
// returned together with [errNotFinite], so that the request is known.
func decode(line []byte) (packet, error) {
	var p packet
	err := json.Unmarshal(line, &p)
	if err != nil {
		if mended := notNumbers.ReplaceAll(line, []byte("null")); !bytes.Equal(mended, line) && json.Unmarshal(mended, &p) == nil {
			err = errNotFinite
		}
	}
	if (err == nil || errors.Is(err, errNotFinite)) && p.Method == "" && len(p.ID) == 0 {
		err = errors.New("neither a request nor an answer: it has no id and no method")
	}
	return p, err
}

// garbage is the error of a line that is no message.
func garbage(line []byte, err error) error {
	return broken("its stdout holds a line that is no message of the protocol (%v): %q; what is meant for people belongs on stderr", err, clip(string(line), 200))
}

func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
