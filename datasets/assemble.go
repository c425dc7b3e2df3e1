package datasets

import (
	"errors"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"

	"hermes/datasets/scan"
)

// assembler puts the columns of a Parquet row together again as JSON text. Lists and
// maps stand in three levels, in two in older files; both are read.
type assembler struct {
	root  *column
	leafs [][]parquet.Value // by column, what the current row still holds
	limit int               // bytes of a row's text; checked at each value, since many may be one long text of a dictionary
}

// column is one node of the schema.
type column struct {
	key           string // quoted name and colon
	kids          []*column
	first, last   int // leaves [first, last)
	leaf          bool
	optional      bool
	repeated      bool
	list, mapping bool
	absent        bool // null is a member that is not there
	write         func([]byte, parquet.Value) ([]byte, error)
}

var errLevels = errors.New("damaged row: a column ends early")

func newAssembler(f *parquet.File) (*assembler, error) {
	var b columnMaker
	b.mixed, b.absent = readMarks(f)
	root, err := b.column(nil, f.Schema())
	if err != nil {
		return nil, err
	}
	return &assembler{root: root, leafs: make([][]parquet.Value, b.leafs)}, nil
}

// columnMaker makes the columns of a file.
type columnMaker struct {
	mixed, absent map[string]bool // by joined path
	leafs         int             // so far
}

func (b *columnMaker) column(path []string, node parquet.Node) (*column, error) {
	name := ""
	if len(path) > 0 {
		name = path[len(path)-1]
	}
	if len(path) > 64 {
		return nil, fmt.Errorf("column %s is nested deeper than 64", name)
	}
	c := &column{
		key: string(append(scan.Quote(nil, name), ':')), first: b.leafs, leaf: node.Leaf(),
		optional: node.Optional(), repeated: node.Repeated(), absent: b.absent[joined(path)],
	}
	if c.leaf {
		b.leafs++
		c.last = b.leafs
		c.write = leafWriter(node)
		if b.mixed[joined(path)] {
			c.write = mixedWriter(c.write)
		}
		return c, nil
	}
	for _, f := range node.Fields() {
		kid, err := b.column(slices.Concat(path, []string{f.Name()}), f)
		if err != nil {
			return nil, err
		}
		c.kids = append(c.kids, kid)
	}
	c.last = b.leafs
	c.list, c.mapping = nesting(node)
	one := len(c.kids) == 1 && c.kids[0].repeated
	c.list = c.list && one
	c.mapping = c.mapping && one && len(c.kids[0].kids) == 2
	return c, nil
}

// object writes one row.
func (a *assembler) object(to []byte, row parquet.Row) (out []byte, err error) {
	for i := range a.leafs {
		a.leafs[i] = nil
	}
	for i := 0; i < len(row); { // values of one column stand together
		c := row[i].Column()
		if c < 0 || c >= len(a.leafs) {
			return to, errLevels
		}
		from := i
		for i < len(row) && row[i].Column() == c {
			i++
		}
		a.leafs[c] = row[from:i]
	}
	to, err = a.group(to, a.root, 0, 0)
	if err == nil && len(to) > a.limit {
		err = tooLong(a.limit)
	}
	return to, err
}

func (a *assembler) group(to []byte, c *column, def, rep int) ([]byte, error) {
	to = append(to, '{')
	var err error
	some := false
	for _, kid := range c.kids {
		if kid.absent && kid.optional {
			v, err := a.peek(kid)
			if err != nil {
				return to, err
			}
			if v.DefinitionLevel() <= def {
				if err := a.drop(kid); err != nil {
					return to, err
				}
				continue
			}
		}
		if some {
			to = append(to, ',')
		}
		some = true
		to, err = a.value(append(to, kid.key...), kid, def, rep)
		if err != nil {
			return to, err
		}
	}
	return append(to, '}'), nil
}

// value writes a column that may be absent or repeated.
func (a *assembler) value(to []byte, c *column, def, rep int) ([]byte, error) {
	switch {
	case c.optional:
		v, err := a.peek(c)
		if err != nil {
			return to, err
		}
		if v.DefinitionLevel() <= def {
			return append(to, "null"...), a.drop(c)
		}
		return a.present(to, c, def+1, rep)
	case c.repeated:
		return a.items(to, c, def, rep, '[', ']', a.present)
	}
	return a.present(to, c, def, rep)
}

// items writes the elements of a repeated column.
func (a *assembler) items(to []byte, c *column, def, rep int, open, closing byte, each func([]byte, *column, int, int) ([]byte, error)) ([]byte, error) {
	to = append(to, open)
	v, err := a.peek(c)
	if err != nil {
		return to, err
	}
	if v.DefinitionLevel() <= def {
		return append(to, closing), a.drop(c)
	}
	for more := true; more; {
		to, err = each(to, c, def+1, rep+1)
		if err != nil {
			return to, err
		}
		left := a.leafs[c.first]
		more = len(left) > 0 && left[0].RepetitionLevel() == rep+1
		if more {
			to = append(to, ',')
		}
	}
	return append(to, closing), nil
}

// present writes a column that is there.
func (a *assembler) present(to []byte, c *column, def, rep int) ([]byte, error) {
	switch {
	case c.leaf:
		v, err := a.peek(c)
		if err != nil {
			return to, err
		}
		a.leafs[c.first] = a.leafs[c.first][1:]
		to, err = c.write(to, v)
		if err == nil && len(to) > a.limit {
			err = tooLong(a.limit)
		}
		return to, err
	case c.list:
		return a.items(to, c.kids[0], def, rep, '[', ']', a.element)
	case c.mapping:
		return a.items(to, c.kids[0], def, rep, '{', '}', a.pair)
	}
	return a.group(to, c, def, rep)
}

// element writes one entry of a list: the only child of the repeated group, or in
// two-level files the repeated node itself.
func (a *assembler) element(to []byte, c *column, def, rep int) ([]byte, error) {
	if !c.leaf && len(c.kids) == 1 {
		return a.value(to, c.kids[0], def, rep)
	}
	return a.present(to, c, def, rep)
}

// pair writes one entry of a map; its key becomes text.
func (a *assembler) pair(to []byte, c *column, def, rep int) ([]byte, error) {
	from := len(to)
	to, err := a.value(to, c.kids[0], def, rep)
	if err != nil {
		return to, err
	}
	if len(to) > from && to[from] != '"' {
		key := string(to[from:])
		to = scan.Quote(to[:from], key)
	}
	return a.value(append(to, ':'), c.kids[1], def, rep)
}

func (a *assembler) peek(c *column) (parquet.Value, error) {
	if left := a.leafs[c.first]; len(left) > 0 {
		return left[0], nil
	}
	return parquet.Value{}, errLevels
}

// drop passes over the one value by which each leaf of c says that c is absent.
func (a *assembler) drop(c *column) error {
	for i := c.first; i < c.last; i++ {
		if len(a.leafs[i]) == 0 {
			return errLevels
		}
		a.leafs[i] = a.leafs[i][1:]
	}
	return nil
}
