package namespace

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends/slotd"
)

// The passage of a box carries, before its connections, the plan to the box, a
// descriptor of the image's mount if there is one, and the answer, empty for ready, back.

// maxFrame bounds the plan and the answer.
const maxFrame = 8 << 20

// begin sends the plan, with the image's mount where image is not negative, and waits
// until deadline for the box to be ready. The text of a box that is not is the error.
// With a door in the plan, the box's socket for it is returned.
func (x *box) begin(p plan, image int, deadline time.Time) (net.Listener, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode the plan of a box: %w", err)
	}
	if len(raw) > maxFrame {
		return nil, fmt.Errorf("the plan of a box has %d bytes, more than %d: too large an environment", len(raw), maxFrame)
	}
	conn := x.passage.Conn
	conn.SetDeadline(deadline)
	defer conn.SetDeadline(time.Time{})
	if err := slotd.WriteMessage(conn, raw); err != nil {
		return nil, fmt.Errorf("send its plan to the box: %w", err)
	}
	if image >= 0 {
		if _, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(image), nil); err != nil {
			return nil, fmt.Errorf("send its image to the box: %w", err)
		}
	}
	answer, err := slotd.ReadMessage(conn, 64<<10)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, errors.New("the box did not get ready in time (does the program call namespace.Main first?)")
	}
	if err != nil {
		return nil, fmt.Errorf("the box ended while it was set up: %w", err)
	}
	if len(answer) > 0 {
		return nil, fmt.Errorf("set up the box: %s", answer)
	}
	if !p.Door {
		return nil, nil
	}
	return slotd.ReceiveDoor(conn)
}
