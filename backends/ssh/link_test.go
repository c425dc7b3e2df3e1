package ssh

import (
	"context"
	"errors"
	"io"
	"testing"

	"golang.org/x/crypto/ssh"
)

// mute is a connection that takes an order to open a channel and never answers.
type mute struct {
	ssh.Conn
	asked   chan struct{}
	release chan struct{}
}

func (m mute) OpenChannel(string, []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	m.asked <- struct{}{}
	<-m.release
	return nil, nil, io.EOF
}

func (m mute) Wait() error { <-m.release; return nil }

// TestChannelsOfABrokenConnection: who opens a channel as the connection breaks does not
// wait for ever, although the library may.
func TestChannelsOfABrokenConnection(t *testing.T) {
	t.Parallel()
	m := mute{asked: make(chan struct{}), release: make(chan struct{})}
	defer close(m.release)
	channels, requests := make(chan ssh.NewChannel), make(chan *ssh.Request)
	close(channels)
	close(requests)
	for _, broken := range []bool{true, false} {
		c := &connection{Client: ssh.NewClient(m, channels, requests), gone: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-m.asked
			if broken {
				close(c.gone)
			} else {
				cancel()
			}
		}()
		_, err := c.script(ctx, "true", nil)
		if broken && !errors.Is(err, errBroken) || !broken && !errors.Is(err, context.Canceled) {
			t.Errorf("broken %v: %v", broken, err)
		}
		cancel()
	}
}
