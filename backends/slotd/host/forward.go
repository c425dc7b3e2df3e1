package host

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
)

// Forward implements backends.Forwarder.
func (h *Host) Forward(ctx context.Context, port int) (io.ReadWriteCloser, error) {
	if err := h.Alive(ctx, "forward"); err != nil {
		return nil, err
	}
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("forward: port %d does not exist", port)
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("forward to port %d: %w", port, err)
	}
	return c, nil
}
