package backends_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"hermes/backends"
	"hermes/backends/local"
)

// A box: a command, whose exit code is a result, and a file.
func Example() {
	dir, err := os.MkdirTemp("", "boxes")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	boxes, err := local.New(local.Config{Dir: dir}) // trusted work only: commands are plain processes
	if err != nil {
		fmt.Println(err)
		return
	}
	defer boxes.Close(ctx)
	box, err := boxes.Open(ctx, backends.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer box.Close(ctx)
	r, err := box.Exec(ctx, backends.Cmd{Shell: "echo hello >out.txt; exit 3"})
	fmt.Println(r.Code, err)
	text, err := box.ReadFile(ctx, "out.txt", 0)
	fmt.Printf("%q %v\n", text, err)
	_, err = box.ReadFile(ctx, "other.txt", 0)
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output:
	// 3 <nil>
	// "hello\n" <nil>
	// true
}

// An ability that only some boxes have is looked for.
func ExampleAs() {
	dir, err := os.MkdirTemp("", "boxes")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	boxes, err := local.New(local.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer boxes.Close(ctx)
	box, err := boxes.Open(ctx, backends.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, background := backends.As[backends.Starter](box)
	_, snapshots := backends.As[backends.Snapshotter](box)
	fmt.Println(background, snapshots)
	// Output: true false
}
