package modal

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"hermes/backends"
	"hermes/backends/modal/wire"
	"hermes/backends/slotd/program"
	slotd "hermes/backends/slotd/wire"
)

// Where things of ours are in a sandbox.
const (
	inside     = "/.hermes"
	serverPath = inside + "/" + slotd.Name
	socketPath = inside + "/socket"
	setupPath  = inside + "/setup"
)

// arch is the architecture of the service's machines.
const arch = "amd64"

// waitScript is a sandbox's first process until slotd and its setup have come. It gives
// up after five minutes, so that a sandbox that gets no slotd ends.
const waitScript = `n=0; while [ ! -e ` + setupPath + ` ]; do n=$((n+1)); [ $n -le 3000 ] || exit 3; sleep 0.1 2>/dev/null || { sleep 1; n=$((n+9)); }; done
exec "$1" box --listen ` + socketPath + ` --setup ` + setupPath

// bringScript takes the setup, one line, and behind it slotd, compressed where it says
// so. Its second argument is slotd's size; none means that the image has it.
const bringScript = `umask 077; mkdir -p ` + inside + ` || exit 1
IFS= read -r setup || { echo "no setup came" >&2; exit 1; }
if [ -n "$2" ]; then
	if command -v gzip >/dev/null 2>&1; then echo gzip; gzip -dc > "$1.new"; else echo plain; cat > "$1.new"; fi || exit 1
	[ "$(wc -c < "$1.new")" -eq "$2" ] || { echo "slotd was cut on its way" >&2; exit 1; }
	chmod 755 "$1.new" && mv "$1.new" "$1" || exit 1
elif [ ! -x "$1" ]; then echo "$1: no such program in the image (program: in the section backends.modal)" >&2; exit 4
fi
printf '%s\n' "$setup" > ` + setupPath + `.new && mv ` + setupPath + `.new ` + setupPath

// newToken is the token of a box's slotd.
func newToken() string { return rand.Text() }

// upload is slotd as it is brought into sandboxes. It is read once.
type upload struct {
	configured string
	once       sync.Once
	plain      []byte
	packed     []byte
	err        error
}

func (l *upload) pack() (plain, packed []byte, err error) {
	l.once.Do(func() {
		l.plain, l.err = readProgram(l.configured)
		if l.err != nil {
			return
		}
		var out bytes.Buffer
		w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
		if err == nil {
			_, err = w.Write(l.plain)
			err = errors.Join(err, w.Close())
		}
		l.packed, l.err = out.Bytes(), err
	})
	return l.plain, l.packed, l.err
}

// readProgram reads a slotd for the service's machines.
func readProgram(configured string) ([]byte, error) {
	path, forget, err := program.Find(configured, arch, "hermes-modal-")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	return text, errors.Join(err, forget())
}

// settle brings slotd and its setup into the sandbox. The setup holds the token, so it
// travels on the script's input and never in arguments or environment.
func (x *box) settle(ctx context.Context, s slotd.Setup) error {
	setup, err := json.Marshal(s)
	if err != nil {
		return err
	}
	argv := []string{"sh", "-c", bringScript, "sh", x.program(), ""}
	var in io.Reader = bytes.NewReader(append(setup, '\n'))
	if x.p.Program == "" {
		plain, packed, err := x.back.upload.pack()
		if err != nil {
			return err
		}
		argv[5] = fmt.Sprint(len(plain))
		return x.bring(ctx, argv, setup, plain, packed)
	}
	code, _, complaint, err := x.route.run(ctx, in, argv...)
	return x.brought(code, complaint, err)
}

func (x *box) brought(code int, complaint string, err error) error {
	switch {
	case err == nil && code == 4:
		err = fmt.Errorf("%w: %s", backends.ErrImage, complaint)
	case err == nil && code != 0:
		err = fmt.Errorf("exit code %d: %s", code, complaint)
	}
	if err != nil {
		return fmt.Errorf("bring slotd into the sandbox: %w", err)
	}
	return nil
}

// bring runs the script and sends slotd in the form that it asks for.
func (x *box) bring(ctx context.Context, argv []string, setup, plain, packed []byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := x.route.start(ctx, slotd.NewID()+slotd.NewID(), argv...)
	if err != nil {
		return x.brought(0, "", err)
	}
	form, asks := io.Pipe()
	var complaint said
	var all, complained sync.WaitGroup
	defer all.Wait()
	defer complained.Wait()
	defer cancel()
	all.Go(func() { asks.CloseWithError(c.read(ctx, wire.Stdout, asks)) })
	complained.Go(func() { c.read(ctx, wire.Stderr, &complaint) })
	all.Go(func() {
		c.write(ctx, io.MultiReader(bytes.NewReader(append(setup, '\n')), &asked{form: form, plain: plain, packed: packed}))
		io.Copy(io.Discard, form)
	})
	code, err := c.wait(ctx)
	if err == nil && code != 0 {
		complained.Wait()
	}
	return x.brought(code, complaint.String(), err)
}

// asked is slotd in the form that the script names on its output, once it did.
type asked struct {
	form          io.Reader
	plain, packed []byte
	text          io.Reader
}

func (a *asked) Read(p []byte) (int, error) {
	if a.text == nil {
		word := make([]byte, len("plain\n"))
		n, err := io.ReadAtLeast(a.form, word, len("gzip\n"))
		switch {
		case err != nil:
			a.text = strings.NewReader("")
		case string(word[:n]) == "gzip\n":
			a.text = bytes.NewReader(a.packed)
		default:
			a.text = bytes.NewReader(a.plain)
		}
	}
	return a.text.Read(p)
}
