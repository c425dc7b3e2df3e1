package station

import (
	"errors"
	"time"

	"hermes/backends"
	"hermes/backends/namespace"
)

// The kinds of isolation of a station's boxes.
const (
	Isolated = "namespace" // boxes of the namespace back-end
	Plain    = "none"      // plain processes of the account
)

// Command is the sub-command of the program on the host that reads a Setup, starts the station,
// writes Ready and ends.
const Command = "station"

// ProgramDir begins the folders of programs, beside the folder of all stations.
const ProgramDir = "slotd-"

// Setup is what a station reads from its standard input, as JSON.
type Setup struct {
	ID        string           `json:"id"`    // begins the names of its boxes
	Dir       string           `json:"dir"`   // absolute; made by the station and removed at its end
	Owner     string           `json:"owner"` // the client's process, as backends.Owner writes it
	Boot      string           `json:"boot"`  // of the client's machine: pids mean nothing on another
	Linger    time.Duration    `json:"linger_ns"`
	Isolation string           `json:"isolation"`
	Namespace namespace.Config `json:"namespace"`
}

// Ready is the answer to a Setup. Where Error is set there is no station.
type Ready struct {
	Error   Fault           `json:"error"`
	Control string          `json:"control"` // path of the socket for calls
	Traits  backends.Traits `json:"traits"`
}

// Order asks for a box. The client chooses its number, so that a box whose answer was
// lost can be removed all the same.
type Order struct {
	Number uint64        `json:"number"`
	Spec   backends.Spec `json:"spec"`
}

// Box tells how a box is reached: a slotd answers on Socket and wants Token.
type Box struct {
	ID     string `json:"id"`
	Socket string `json:"socket"`
	Token  string `json:"token"`
}

// Other is a station of the same account, dead or alive.
type Other struct {
	ID    string `json:"id"`
	Owner string `json:"owner"`
	Boot  string `json:"boot"`
	Dead  bool   `json:"dead"` // its process has ended
}

// Fault is an error on its way through JSON.
type Fault struct {
	Kind string `json:"kind,omitempty"`
	Text string `json:"text,omitempty"`
}

// kinds are the conditions that survive the way.
func kinds() map[string]error {
	return map[string]error{"lost": backends.ErrLost, "broken": backends.ErrBroken, "image": backends.ErrImage,
		"unavailable": backends.ErrUnavailable, "closed": backends.ErrClosed}
}

// faultOf describes an error.
func faultOf(err error) Fault {
	f := Fault{Kind: "other", Text: err.Error()}
	for kind, is := range kinds() {
		if errors.Is(err, is) {
			f.Kind = kind
		}
	}
	return f
}

// Err is the error that was described, or nil.
func (f Fault) Err() error {
	if f == (Fault{}) {
		return nil
	}
	return &faultError{text: f.Text, is: kinds()[f.Kind]}
}

// faultError is an error from the station; its text names the condition already.
type faultError struct {
	text string
	is   error
}

func (e *faultError) Error() string { return e.text }
func (e *faultError) Unwrap() error { return e.is }
