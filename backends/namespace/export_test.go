package namespace

import (
	"fmt"
	"os"
)

// Kill ends pid 1 of a box from outside and waits until it is gone.
func (b *Backend) Kill(id string) error {
	for _, x := range b.held.All() {
		if x.id == id {
			err := x.proc.Signal(os.Kill)
			<-x.gone
			return err
		}
	}
	return fmt.Errorf("no box %s", id)
}
