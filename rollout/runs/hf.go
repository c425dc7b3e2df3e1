package runs

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"

	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/rollout/sink"
	"hermes/trajectory/columns"
	"hermes/trajectory/stats"
)

// A file of the hub is ended after so many rows or bytes, whichever comes first.
const (
	hubRows  = 20_000
	hubBytes = 256 << 20
)

// HubOptions say what is exported for the hub.
type HubOptions struct {
	Where   string // a condition on records, see [sink.ParseCondition]; empty: all accepted ones
	License string // as the hub names it; empty: none is claimed
	Name    string // a title for people; empty: the run's
	Created string // names the writing program in the files
}

// HubExport is what was written.
type HubExport struct {
	Dir      string `json:"dir"`
	Rows     int64  `json:"rows"`
	Accepted int64  `json:"accepted"`
	Filtered int64  `json:"filtered"` // accepted, and not fulfilling the condition
	Files    int    `json:"files"`
}

// ExportHub writes the accepted samples of a run as a dataset folder of the Hugging Face
// hub: data/train-*.parquet and a README.md with the card. The folder out must not exist;
// it appears when it is whole. Python's datasets loads it as it is.
func ExportHub(ctx context.Context, dir, out string, o HubOptions) (x HubExport, err error) {
	r, err := Open(dir)
	if err != nil {
		return x, err
	}
	defer r.Close()
	var keep sink.Condition
	if o.Where != "" {
		keep, err = sink.ParseCondition(o.Where)
		if err != nil {
			return x, fmt.Errorf("condition %q: %w", o.Where, err)
		}
	}
	if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
		return x, fmt.Errorf("export to %s: it exists", out)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(filepath.Clean(out)), ".hermes-export-*")
	if err != nil {
		return x, fmt.Errorf("export: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	s := &hubFiles{dir: filepath.Join(tmp, "data"), created: o.Created, probs: r.Manifest.Books.LogProbs}
	if err := errors.Join(os.Mkdir(s.dir, 0o755), os.Chmod(tmp, 0o755)); err != nil {
		return x, fmt.Errorf("export: %w", err)
	}
	x.Dir = out
	if err := r.hubRows(ctx, s, keep, &x); err != nil {
		return x, errors.Join(err, s.abandon())
	}
	if x.Rows == 0 {
		return x, fmt.Errorf("export %s: no sample to export (%d accepted, %d do not fulfil the condition)", dir, x.Accepted, x.Filtered)
	}
	x.Files, err = s.finish()
	if err != nil {
		return x, fmt.Errorf("export: %w", err)
	}
	books, err := r.Stats(ctx)
	if err != nil {
		return x, err
	}
	card, err := hubCard(r.Manifest, books, x, o)
	if err != nil {
		return x, err
	}
	if err := os.WriteFile(filepath.Join(tmp, "README.md"), card, 0o644); err != nil {
		return x, fmt.Errorf("export: %w", err)
	}
	return x, os.Rename(tmp, out)
}

func (r *Run) hubRows(ctx context.Context, s *hubFiles, keep sink.Condition, x *HubExport) error {
	for e, err := range r.Journal.Records(ctx, 0) {
		if err != nil {
			return err
		}
		if e.Kind != journal.KindFinal {
			continue
		}
		rec, err := e.Record()
		if err != nil {
			return err
		}
		in, err := r.sorter.Enter(e.At, rec)
		if err != nil {
			return err
		}
		if in.Book != stats.Accepted {
			continue
		}
		x.Accepted++
		if keep != nil && !keep(rec) {
			x.Filtered++
			continue
		}
		if err := s.write(columns.NewRow(rec)); err != nil {
			return fmt.Errorf("export %s/%d: %w", rec.Row, rec.Sample, err)
		}
		x.Rows++
	}
	return nil
}

// hubFiles writes rows into files whose number is known at the end only.
type hubFiles struct {
	dir, created, probs string
	f                   *os.File
	w                   *columns.Writer
	rows, bytes         int
	n                   int
}

func (s *hubFiles) write(row columns.Row) error {
	if s.w == nil {
		f, err := os.Create(filepath.Join(s.dir, fmt.Sprintf("part-%05d", s.n)))
		if err != nil {
			return err
		}
		s.f, s.w, s.rows, s.bytes = f, columns.NewWriter(f, s.created, s.probs), 0, 0
		s.n++
	}
	n, err := s.w.WriteRow(row)
	if err != nil {
		return err
	}
	s.rows++
	s.bytes += n
	if s.rows >= hubRows || s.bytes >= hubBytes {
		return s.end()
	}
	return nil
}

func (s *hubFiles) end() error {
	if s.w == nil {
		return nil
	}
	err := errors.Join(s.w.Close(), s.f.Sync(), s.f.Close())
	s.w, s.f = nil, nil
	return err
}

func (s *hubFiles) abandon() error {
	if s.f == nil {
		return nil
	}
	return s.f.Close()
}

func (s *hubFiles) finish() (int, error) {
	if err := s.end(); err != nil {
		return 0, err
	}
	for i := range s.n {
		from, to := fmt.Sprintf("part-%05d", i), fmt.Sprintf("train-%05d-of-%05d.parquet", i, s.n)
		if err := os.Rename(filepath.Join(s.dir, from), filepath.Join(s.dir, to)); err != nil {
			return 0, err
		}
	}
	return s.n, nil
}

//go:embed card.md
var cardText string

// sizes are the hub's names for numbers of rows.
func sizeCategory(n int64) string {
	names := []string{"n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B"}
	i := 0
	for limit := int64(1000); n >= limit && i < len(names)-1; limit *= 10 {
		i++
	}
	return names[i]
}

// hubCard is the README.md: a YAML header for the hub, then words and tables for people.
func hubCard(m rundir.Manifest, books stats.Statistics, x HubExport, o HubOptions) ([]byte, error) {
	type files struct {
		Split string `yaml:"split"`
		Path  string `yaml:"path"`
	}
	type config struct {
		Name  string  `yaml:"config_name"`
		Files []files `yaml:"data_files"`
	}
	model, _ := m.Identity.Get("model")
	name := o.Name
	if name == "" {
		name = "Agent rollouts of " + model
	}
	header := struct {
		License string   `yaml:"license,omitempty"`
		Name    string   `yaml:"pretty_name"`
		Tags    []string `yaml:"tags"`
		Sizes   []string `yaml:"size_categories"`
		Configs []config `yaml:"configs"`
	}{o.License, name, []string{"agent", "tool-use", "rollouts", "hermes"}, []string{sizeCategory(x.Rows)},
		[]config{{"default", []files{{"train", "data/train-*.parquet"}}}}}
	var b bytes.Buffer
	b.WriteString("---\n")
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(header), e.Close()); err != nil {
		return nil, fmt.Errorf("card: %w", err)
	}
	b.WriteString("---\n\n")
	t, err := template.New("card").Funcs(template.FuncMap{"cell": cell}).Parse(cardText)
	if err != nil {
		return nil, fmt.Errorf("card: %w", err)
	}
	err = t.Execute(&b, map[string]any{"Name": name, "M": m, "Books": books, "X": x, "O": o})
	return b.Bytes(), err
}

// cell is a text for a table.
func cell(s string) string {
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s)
}
