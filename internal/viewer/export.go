package viewer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"hermes/rollout/diff"
	"hermes/rollout/listing"
	"hermes/rollout/rundir"
	"hermes/trajectory"
)

// Bounds of a bundle.
const (
	chunkRows  = 2000    // rows in one file of a list
	mostKept   = 1 << 20 // bytes of one artifact
	mostBeside = 4 << 20 // bytes of the artifacts of one sample
)

// Exported counts what a bundle holds.
type Exported struct {
	Runs    int `json:"runs"`
	Records int `json:"records"`
}

// ErrNotEmpty says that the folder for a bundle holds something else.
var ErrNotEmpty = errors.New("it holds other files")

// mark is the file by which a folder is known as a bundle, which may be replaced.
const mark = "app.js"

// Export writes the pages as a folder that opens from disk and from any server of files:
// index.html with its program, and the data as scripts, since a page that was opened from disk
// may load nothing else. The folder must be new, empty, or an older bundle, whose data are
// removed. In memory it holds the lists, as the page does, and one record at a time.
func (v *Viewer) Export(ctx context.Context, dir string) (Exported, error) {
	var done Exported
	if err := bundleDir(dir); err != nil {
		return done, err
	}
	if err := v.Indexed(ctx); err != nil {
		return done, err
	}
	b := bundle{dir: filepath.Join(dir, "data")}
	lines := []runLine{}
	for i, s := range v.runs {
		o, err := s.get()
		if err != nil {
			return done, err
		}
		n, line, err := b.run(ctx, i, o)
		if err != nil {
			return done, fmt.Errorf("export %s: %w", o.Dir, err)
		}
		lines = append(lines, line)
		done.Runs, done.Records = done.Runs+1, done.Records+n
	}
	if err := b.write("runs", lines); err != nil {
		return done, err
	}
	return done, writePage(dir)
}

// bundleDir makes the folder of a bundle. It refuses one that holds anything else.
func bundleDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	known := map[string]bool{"index.html": true, mark: true, "style.css": true, "data": true}
	_, err = os.Stat(filepath.Join(dir, mark))
	for _, e := range entries {
		if err != nil || !known[e.Name()] {
			return fmt.Errorf("%s: %w (%s)", dir, ErrNotEmpty, e.Name())
		}
	}
	return errors.Join(os.RemoveAll(filepath.Join(dir, "data")), os.MkdirAll(dir, 0o755))
}

// bundlePolicy is the content security policy of the page where no server sends one.
const bundlePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'"

// writePage writes the page and its program. The data are there before it is.
func writePage(dir string) error {
	program, err := script()
	if err != nil {
		return err
	}
	style, err := page.ReadFile("page/style.css")
	if err != nil {
		return err
	}
	index, err := page.ReadFile("page/index.html")
	if err != nil {
		return err
	}
	index = bytes.Replace(index, []byte(`<html lang="en">`), []byte(`<html lang="en" data-bundle>`), 1)
	index = bytes.Replace(index, []byte("<meta charset=\"utf-8\">\n"), []byte("<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\""+bundlePolicy+"\">\n"+
		"<meta name=\"referrer\" content=\"no-referrer\">\n<meta http-equiv=\"x-dns-prefetch-control\" content=\"off\">\n"), 1)
	return errors.Join(os.WriteFile(filepath.Join(dir, mark), program, 0o644), os.WriteFile(filepath.Join(dir, "style.css"), style, 0o644),
		os.WriteFile(filepath.Join(dir, "index.html"), index, 0o644))
}

// bundle writes the data of a bundle.
type bundle struct{ dir string }

// write writes one script of data: a call with its name and a text of JSON. The text is parsed
// as JSON and never as a program, so that no key or value means anything else.
func (b bundle) write(name string, v any) error {
	file := filepath.Join(b.dir, filepath.FromSlash(name)+".js")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	text, err := json.Marshal(string(raw))
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	fmt.Fprintf(w, "hermesData(%q, %s);\n", name, text)
	return errors.Join(w.Flush(), f.Close())
}

// bundledRun is a run on its page, with how many files its lists have.
type bundledRun struct {
	runView
	Lists     int `json:"list_chunks"`
	TaskLists int `json:"task_chunks"`
}

// run writes one run, which is at a place, and returns how many records it wrote.
func (b bundle) run(ctx context.Context, place int, o *opened) (n int, line runLine, err error) {
	at := strconv.Itoa(place)
	o.index.mu.RLock()
	end := len(o.index.list.Rows)
	tasks := o.index.list.Tasks(func(*listing.Row) bool { return true })
	o.index.mu.RUnlock()
	w := bundledRun{runView: o.view(ctx, true)}
	for n < end {
		rows := o.index.part(n, min(n+chunkRows, end))
		if err := b.write(fmt.Sprintf("%s/list-%d", at, w.Lists), views(rows)); err != nil {
			return n, line, err
		}
		w.Lists++
		for i := range rows {
			if err := errors.Join(ctx.Err(), b.record(at, o, &rows[i])); err != nil {
				return n, line, err
			}
			n++
		}
	}
	for from := 0; from < len(tasks); from += chunkRows {
		var list []taskView
		for i := from; i < min(from+chunkRows, len(tasks)); i++ {
			list = append(list, viewTask(&tasks[i]))
		}
		if err := b.write(fmt.Sprintf("%s/tasks-%d", at, w.TaskLists), list); err != nil {
			return n, line, err
		}
		w.TaskLists++
	}
	return n, w.runLine, b.write(at+"/run", w)
}

// part is a copy of some rows: follow may mark the list's own as old.
func (x *index) part(from, to int) []listing.Row {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Clone(x.list.Rows[from:to])
}

// bundledRecord is the page of one sample.
type bundledRecord struct {
	Record *recordView        `json:"record"`
	Raw    *trajectory.Record `json:"raw"`
	Files  map[string]string  `json:"files"`
}

func (b bundle) record(at string, o *opened, w *listing.Row) error {
	e, err := o.Journal.At(w.At)
	if err != nil {
		return err
	}
	rec, err := e.Record()
	if err != nil {
		return err
	}
	v, err := o.recordView(e, rec)
	if err != nil {
		return err
	}
	name := rec.Key.String()
	out := bundledRecord{Record: v, Raw: rec, Files: map[string]string{}}
	if w.Old {
		name += "-" + strconv.FormatInt(int64(w.At), 10)
	} else {
		out.Files = o.texts(rec, v.Files)
	}
	if err := b.blobs(at, o, rec); err != nil {
		return err
	}
	return b.write(at+"/records/"+name[:2]+"/"+name, out)
}

// texts are the artifacts of a sample as the page shows them, as many as there is room for.
func (o *opened) texts(rec *trajectory.Record, list []file) map[string]string {
	out := map[string]string{}
	room := int64(mostBeside)
	for _, f := range list {
		data, err := o.readArtifact(rec, f.Name)
		switch {
		case err != nil:
			out[f.Name] = "(the file cannot be read)"
		case diff.Binary(data):
			out[f.Name] = fmt.Sprintf("(%d bytes that are no text)", len(data))
		case int64(len(data)) > min(room, mostKept):
			out[f.Name] = fmt.Sprintf("(%d bytes, too many for a bundle)", len(data))
		default:
			room -= int64(len(data))
			out[f.Name] = string(data)
		}
	}
	return out
}

// blobs copies the images of a record. What is no image is left out.
func (b bundle) blobs(at string, o *opened, rec *trajectory.Record) error {
	if rec.Trace == nil {
		return nil
	}
	for m := range messages(rec.Trace) {
		for _, p := range m.Parts {
			if p.Kind != "image" || p.Blob == "" || !filepath.IsLocal(p.Blob) || filepath.Base(p.Blob) != p.Blob {
				continue
			}
			data, err := rundir.NewBlobs(nil, o.Dir).Get(p.Blob)
			if err != nil || imageKind(data) == "" {
				continue // the page shows that it is not there
			}
			dir := filepath.Join(b.dir, at, "blobs")
			if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, p.Blob), data, 0o644)); err != nil {
				return err
			}
		}
	}
	return nil
}

// messages yields all messages of a trace, in every branch.
func messages(t *trajectory.Trace) func(yield func(trajectory.Message) bool) {
	return func(yield func(trajectory.Message) bool) {
		for _, n := range t.Nodes {
			if !yield(n.Delta.Message) {
				return
			}
		}
		for _, m := range t.Pending {
			if !yield(m) {
				return
			}
		}
	}
}
