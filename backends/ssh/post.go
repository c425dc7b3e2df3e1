package ssh

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/wire"
	"hermes/backends/ssh/station"
)

// The scripts that run on the host. Their words come on their input, one a line.
const (
	askScript  = `uname -s; uname -m; cd && pwd`
	haveScript = `IFS= read -r p; test -x "$p" && touch "${p%/*}"`
	// The program may be read by others: pid 1 of a box may be another user of the host.
	uploadScript = `umask 077; IFS= read -r p; IFS= read -r n; d="${p%/*}"; t="$p.$$"
mkdir -p "$d" && cat > "$t" || { rm -f "$t"; exit 1; }
if test "$(wc -c < "$t")" -ne "$n"; then rm -f "$t"; echo "the upload was cut" >&2; exit 1; fi
chmod 755 "$t" && mv -f "$t" "$p"`
	startScript = `IFS= read -r p; exec "$p" ` + station.Command
)

// post is a station on the host, as its client sees it.
type post struct {
	id     string
	link   *link
	ready  station.Ready
	calls  *http.Client
	socket *http.Transport
}

// settle brings the program to the host, if it is not there, and starts a station.
func settle(ctx context.Context, l *link, c Config) (*post, error) {
	conn, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	said, err := conn.script(ctx, askScript, strings.NewReader(""))
	if err != nil {
		return nil, fmt.Errorf("ask the host what it is: %w", err)
	}
	words := strings.Split(strings.TrimSpace(said), "\n")
	if len(words) != 3 || words[0] != "Linux" {
		return nil, fmt.Errorf("the host says %.100q: boxes need Linux", said)
	}
	base := c.Dir
	if base == "" {
		base = path.Join(words[2], ".cache/hermes")
	}
	arch := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[words[1]]
	if arch == "" {
		return nil, fmt.Errorf("the host is %s: there is a slotd for x86_64 and aarch64 only", words[1])
	}
	text, hash, err := readProgram(c.Slotd, arch)
	if err != nil {
		return nil, err
	}
	program := path.Join(base, station.ProgramDir+hash, wire.Name)
	if err := upload(ctx, conn, program, text); err != nil {
		return nil, fmt.Errorf("bring slotd to the host as %s: %w", program, err)
	}
	return start(ctx, conn, l, c, base, program)
}

// upload writes the program under the name of its content, in one step.
func upload(ctx context.Context, conn *connection, name string, text []byte) error {
	if _, err := conn.script(ctx, haveScript, strings.NewReader(name+"\n")); err == nil {
		return nil
	}
	_, err := conn.script(ctx, uploadScript, io.MultiReader(strings.NewReader(fmt.Sprintf("%s\n%d\n", name, len(text))), bytes.NewReader(text)))
	return err
}

func start(ctx context.Context, conn *connection, l *link, c Config, base, program string) (*post, error) {
	id := wire.NewID()
	setup, err := json.Marshal(station.Setup{ID: id, Dir: path.Join(base, "s", id), Owner: backends.Self().String(), Boot: backends.BootID(),
		Linger: c.Linger, Isolation: c.Isolation, Namespace: c.Namespace})
	if err != nil {
		return nil, err
	}
	said, err := conn.script(ctx, startScript, io.MultiReader(strings.NewReader(program+"\n"), bytes.NewReader(setup)))
	if err != nil {
		return nil, fmt.Errorf("start %s on the host: %w", program, err)
	}
	p := &post{id: id, link: l}
	if err := json.Unmarshal([]byte(said), &p.ready); err != nil {
		return nil, fmt.Errorf("start %s on the host: it says %.200q", program, said)
	}
	if err := p.ready.Error.Err(); err != nil {
		if errors.Is(err, backends.ErrUnavailable) {
			err = fmt.Errorf("the host cannot isolate boxes (isolation: none in the section backends.ssh switches that off, for trusted work): %w", err)
		}
		return nil, err
	}
	p.socket = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx, p.ready.Control) }}
	p.calls = &http.Client{Transport: p.socket}
	return p, nil
}

// errNoStation says that the station did not answer.
var errNoStation = errors.New("no answer from the station")

// call asks the station. Its error wraps errNoStation where there was no answer.
func (p *post) call(ctx context.Context, method, what string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://station/v1/"+what, body)
	if err != nil {
		return err
	}
	answer, err := p.calls.Do(r)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoStation, err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errNoStation, err)
	case answer.StatusCode == http.StatusOK && out == nil:
		return nil
	case answer.StatusCode == http.StatusOK:
		err = json.Unmarshal(raw, out)
	case answer.StatusCode == http.StatusUnprocessableEntity:
		var f station.Fault
		if err = json.Unmarshal(raw, &f); err == nil {
			return f.Err()
		}
	default:
		err = fmt.Errorf("it answers %d: %.200q", answer.StatusCode, raw)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNoStation, err)
	}
	return nil
}

// end ends the station and all of its boxes.
func (p *post) end(ctx context.Context) error {
	err := p.call(ctx, "POST", "end", nil, nil)
	p.socket.CloseIdleConnections()
	return err
}
