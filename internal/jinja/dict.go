package jinja

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
)

// Dict is a Python dict: it keeps the order of its keys, and 1, 1.0 and True
// are one key. Build it with [NewDict], [Dict.Set] or [Decode]; once it is handed
// to a rendering it must not change.
type Dict struct {
	keys  []any
	vals  []any
	index map[any]int // of dicts with more than smallDict keys

	firstKeys, firstVals [4]any // where keys and vals begin: small dicts are one allocation
}

const smallDict = 8

// NewDict makes an empty dict.
func NewDict() *Dict { return &Dict{} }

// Set puts a value under a key. Maps, slices, json.Number, json.RawMessage and
// all numbers of Go are converted; a Go map is taken in sorted order. It panics
// on a type that has no Python counterpart, such as a channel, and on a
// json.RawMessage that is not JSON.
func (d *Dict) Set(key string, value any) *Dict { return d.set(key, value) } // inlined: constant keys cost no allocation

func (d *Dict) set(key, value any) *Dict {
	d.put(key, fromGo(value))
	return d
}

// Get returns the value under key. A nil dict is empty.
func (d *Dict) Get(key string) (any, bool) {
	if d == nil {
		return nil, false
	}
	if d.index == nil {
		for i, k := range d.keys {
			if s, ok := k.(string); ok && s == key {
				return d.vals[i], true
			}
		}
		return nil, false
	}
	i, ok := d.index[key]
	if !ok {
		return nil, false
	}
	return d.vals[i], true
}

// Len is the number of keys.
func (d *Dict) Len() int {
	if d == nil {
		return 0
	}
	return len(d.keys)
}

// Each visits keys and values in order until yield returns false.
func (d *Dict) Each(yield func(key, value any) bool) {
	for i := 0; i < d.Len(); i++ {
		if !yield(d.keys[i], d.vals[i]) {
			return
		}
	}
}

func (d *Dict) find(key any) int {
	if s, ok := key.(string); ok && d.index == nil { // nearly always
		for i, k := range d.keys {
			switch k := k.(type) {
			case string:
				if k == s {
					return i
				}
			case Markup:
				if string(k) == s {
					return i
				}
			}
		}
		return -1
	}
	h := hashKey(key)
	if d.index != nil {
		if i, ok := d.index[h]; ok {
			return i
		}
		return -1
	}
	for i, k := range d.keys {
		if hashKey(k) == h {
			return i
		}
	}
	return -1
}

func (d *Dict) lookup(key any) (any, bool) {
	if i := d.find(key); i >= 0 {
		return d.vals[i], true
	}
	return nil, false
}

func (d *Dict) put(key, value any) {
	if i := d.find(key); i >= 0 {
		d.vals[i] = value
		return
	}
	if d.keys == nil {
		d.keys, d.vals = d.firstKeys[:0], d.firstVals[:0]
	}
	d.keys = append(d.keys, key)
	d.vals = append(d.vals, value)
	switch {
	case d.index != nil:
		d.index[hashKey(key)] = len(d.keys) - 1
	case len(d.keys) > smallDict:
		d.index = make(map[any]int, 2*len(d.keys))
		for i, k := range d.keys {
			d.index[hashKey(k)] = i
		}
	}
}

func (d *Dict) clone() *Dict {
	c := NewDict()
	for i, k := range d.keys {
		c.put(k, d.vals[i])
	}
	return c
}

type (
	noneKey  struct{}
	bigKey   struct{ text string }
	tupleKey struct{ text string }
)

// hashKey maps equal keys to equal Go values.
func hashKey(v any) any {
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return noneKey{}
	case Markup:
		return string(v)
	case bool:
		i, _ := integer(v)
		return i
	case int:
		return v
	case *big.Int:
		return bigKey{v.String()}
	case float64:
		if v == math.Trunc(v) && !math.IsInf(v, 0) {
			b, _ := big.NewFloat(v).Int(nil)
			return hashKey(shrink(b))
		}
		return v
	case *Tuple:
		text := ""
		for _, x := range v.items {
			h := hashKey(x)
			if len(text) > 1<<20 {
				panic(limitf("a key that is too long"))
			}
			part := fmt.Sprintf("%T %#v", h, h)
			text += strconv.Itoa(len(part)) + ":" + part
		}
		return tupleKey{text}
	case *List, *Dict:
		panic(typeErrorf("unhashable type: '%s'", typeName(v)))
	case *Undefined:
		return noneKey{} // all Undefined share a hash, and none is looked up in earnest
	}
	return v
}

// fromGo converts what Go programs have into values.
func fromGo(v any) any {
	switch v := v.(type) {
	case nil, bool, int, float64, string, Markup, *List, *Tuple, *Dict, *Undefined, *Namespace, *big.Int:
		return v
	case json.Number:
		return parseNumber(v.String())
	case json.RawMessage:
		d, err := Decode(v)
		if err != nil {
			panic(fmt.Sprintf("jinja: %v", err))
		}
		return d
	case map[string]any:
		d := NewDict()
		for _, k := range slices.Sorted(maps.Keys(v)) {
			d.Set(k, v[k])
		}
		return d
	case []any:
		return NewList(v...)
	case []string:
		l := &List{}
		for _, s := range v {
			l.Append(s)
		}
		return l
	case int64:
		return int(v)
	case int32:
		return int(v)
	case uint64:
		return shrink(new(big.Int).SetUint64(v))
	case float32:
		return float64(v)
	}
	panic(fmt.Sprintf("jinja: no value for %T", v))
}
