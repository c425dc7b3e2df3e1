package ssh

import (
	"context"
	"fmt"
	"strconv"
)

// Kill ends a box behind the back of its client.
func (b *Backend) Kill(id string) error {
	for _, x := range b.held.All() {
		if x.at.ID == id {
			return x.post.call(context.Background(), "DELETE", "boxes/"+strconv.FormatUint(x.number, 10), nil, nil)
		}
	}
	return fmt.Errorf("no box %s", id)
}

// Cut breaks the connection to the host.
func (b *Backend) Cut() error {
	c, err := b.link.get(context.Background())
	if err != nil {
		return err
	}
	c.close()
	<-c.gone
	return nil
}
