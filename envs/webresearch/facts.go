package webresearch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// kind is what an entity is.
type kind int

const (
	person kind = iota
	firm
	town
	festival
	literal // a year or a name that has no page
)

// relation is a kind of fact. Both texts take the subject; says takes the object behind it.
type relation struct {
	from, to kind
	says     string // a sentence of the subject's page
	phrase   string // how a question names the object
	changes  bool   // an old page may say otherwise
}

// relations lists what is known about entities. In no sentence does one relation look
// like another.
func relations() []relation {
	return []relation{
		{person, town, "%s was born in %s.", "the town where %s was born", false},
		{person, firm, "%s works for %s.", "the company that %s works for now", true},
		{person, person, "The mentor of %s was %s.", "the mentor of %s", false},
		{person, literal, "The year of birth of %s is %s.", "the year of birth of %s", false},
		{firm, person, "%s was founded by %s.", "the founder of %s", false},
		{firm, person, "The head of %s is %s.", "the present head of %s", true},
		{firm, town, "%s has its seat in %s.", "the town where %s has its seat now", true},
		{firm, literal, "The year of foundation of %s is %s.", "the year of foundation of %s", false},
		{town, person, "The mayor of %s is %s.", "the present mayor of %s", true},
		{town, town, "%s is twinned with %s.", "the twin town of %s", false},
		{town, festival, "The yearly festival of %s is the %s.", "the yearly festival of %s", false},
		{town, literal, "The river of %s is the %s.", "the river of %s", false},
		{festival, person, "The latest winner of the %s is %s.", "the latest winner of the %s", true},
		{festival, firm, "The sponsor of the %s is %s.", "the sponsor of the %s", false},
	}
}

// entity has its own page.
type entity struct {
	kind  kind
	name  string
	facts map[int]*fact // by place in relations
}

// fact is what is true of an entity.
type fact struct {
	object *entity // nil where the object is literal
	value  string  // its name
	old    string  // what the outdated page says; "": there is none
	news   string  // address of a page that tells the change; "": none
}

// world is a set of entities with facts about them.
type world struct {
	r     *rand.Rand
	by    [4][]*entity
	names map[string]bool
}

// newWorld makes entities; the number of each kind grows with size.
func newWorld(r *rand.Rand, size int) *world {
	w := &world{r: r, names: map[string]bool{}}
	for k, n := range []int{6 + 5*size, 3 + 3*size, 3 + 2*size, 2 + size} {
		for range n {
			w.add(kind(k), w.fresh(kind(k)))
		}
	}
	for _, list := range w.by {
		for _, e := range list {
			w.fill(e)
		}
	}
	return w
}

func (w *world) add(k kind, name string) *entity {
	e := &entity{kind: k, name: name, facts: map[int]*fact{}}
	w.names[name] = true
	w.by[k] = append(w.by[k], e)
	return e
}

// fill draws all facts about an entity.
func (w *world) fill(e *entity) {
	for i, rel := range relations() {
		if rel.from != e.kind {
			continue
		}
		f := &fact{}
		switch {
		case rel.to != literal:
			for f.object = e; f.object == e; {
				f.object = w.by[rel.to][w.r.IntN(len(w.by[rel.to]))]
			}
			f.value = f.object.name
		case e.kind == town:
			f.value = w.fresh(literal)
		default:
			f.value = fmt.Sprint(1880 + w.r.IntN(120))
		}
		e.facts[i] = f
	}
}

const syllables = "ba be bri ca co da del dor e fa fen ga gri ha hel i ka kel la lo lun ma mir mo na ne nor o pa pel qui ra ri ros sa sel su ta tor u va ven vi wa wen ya zan zo"

// fresh is a name that nothing else has.
func (w *world) fresh(k kind) string {
	parts := strings.Fields(syllables)
	part := func(n int) string {
		s := ""
		for range n {
			s += parts[w.r.IntN(len(parts))]
		}
		return strings.ToUpper(s[:1]) + s[1:]
	}
	pick := func(list string) string { f := strings.Fields(list); return f[w.r.IntN(len(f))] }
	for {
		var name string
		switch k {
		case person:
			name = pick("Ada Boris Clara Dario Edith Farid Greta Hanno Irena Jonas Katia Linus Marta Nils Olga Pavel Rosa Stefan Tilda Viktor") + " " + part(3)
		case firm:
			name = part(2) + " " + pick("Works Labs Foundry Shipping Textiles Optics Brewery Press")
		case town:
			name = part(2) + pick("burg ford haven stead mouth dale")
		case festival:
			name = part(2) + " " + pick("Regatta Biennale Marathon Fair Prize Rally")
		default:
			name = part(3)
		}
		if !w.names[name] && len(name) > 5 {
			w.names[name] = true
			return name
		}
	}
}

// twin makes an entity with nearly the same name and other facts.
func (w *world) twin(e *entity) {
	name := []rune(e.name)
	for w.names[string(name)] {
		at := 2 + w.r.IntN(len(name)-2)
		if name[at] != ' ' {
			name = slices.Insert(name, at, name[at])
		}
	}
	w.fill(w.add(e.kind, string(name)))
}

// other is a name of the kind of e that is not e's, for what old and lying pages say.
func (w *world) other(e *entity) string {
	for {
		if o := w.by[e.kind][w.r.IntN(len(w.by[e.kind]))]; o != e {
			return o.name
		}
	}
}
