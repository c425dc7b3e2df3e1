package namespace

import (
	"fmt"
	"os"
)

// Kill ends pid 1 of a box from outside and waits until it is gone.
func (b *Backend) Kill(id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for x := range b.boxes {
		if x.id == id {
			err := x.proc.Signal(os.Kill)
			<-x.gone
			return err
		}
	}
	return fmt.Errorf("no box %s", id)
}
