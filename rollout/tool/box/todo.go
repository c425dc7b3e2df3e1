package box

import (
	"context"
	"slices"
	"strings"
	"sync"

	"hermes/rollout/tool"
)

const todoParameters = `{
  "type": "object",
  "properties": {
    "todos": {
      "type": "array",
      "description": "The items; leave out to read the list.",
      "items": {
        "type": "object",
        "properties": {
          "id": {"type": "string", "description": "Unique name of the item."},
          "content": {"type": "string", "description": "What is to be done."},
          "status": {"type": "string", "enum": ["pending", "in_progress", "completed", "cancelled"]}
        },
        "required": ["id", "content", "status"]
      }
    },
    "merge": {"type": "boolean", "default": false, "description": "false: replace the list; true: change items by id and add new ones."}
  },
  "additionalProperties": false
}`

type todoItem struct {
	ID      string `json:"id"`
	Content string `json:"content"`
	Status  string `json:"status"`
}

type todoArgs struct {
	Todos *[]todoItem `json:"todos"`
	Merge bool        `json:"merge"`
}

type todoSummary struct {
	Total      int `json:"total"`
	Pending    int `json:"pending"`
	InProgress int `json:"in_progress"`
	Completed  int `json:"completed"`
	Cancelled  int `json:"cancelled"`
}

func todo() tool.Def {
	return tool.Def{
		Spec: spec("todo", todoParameters), Toolset: "todo", About: "Keep a list of tasks.",
		Open: func(*tool.Scope) (tool.Handler, error) {
			var l todoList
			return tool.Typed(l.call), nil
		},
	}
}

// todoList is the list of one rollout.
type todoList struct {
	mu    sync.Mutex
	items []todoItem
}

func (l *todoList) call(_ context.Context, a todoArgs) (tool.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Todos != nil {
		if !a.Merge {
			l.items = nil
		}
		for _, t := range *a.Todos {
			l.put(t, a.Merge)
		}
	}
	sum := todoSummary{Total: len(l.items)}
	for _, t := range l.items {
		switch t.Status {
		case "pending":
			sum.Pending++
		case "in_progress":
			sum.InProgress++
		case "completed":
			sum.Completed++
		case "cancelled":
			sum.Cancelled++
		}
	}
	items := slices.Clone(l.items)
	if items == nil {
		items = []todoItem{}
	}
	return tool.Result{Text: tool.JSON(struct {
		Todos   []todoItem  `json:"todos"`
		Summary todoSummary `json:"summary"`
	}{items, sum})}, nil
}

// put adds an item, or changes the one with its id. In a new list the last of two items
// with one id stays, at the place of the last.
func (l *todoList) put(t todoItem, merge bool) {
	t.ID = strings.TrimSpace(t.ID)
	if t.ID == "" {
		t.ID = "?"
	}
	i := slices.IndexFunc(l.items, func(o todoItem) bool { return o.ID == t.ID })
	switch {
	case i < 0:
		l.items = append(l.items, t)
	case merge:
		l.items[i] = t
	default:
		l.items = append(slices.Delete(l.items, i, i+1), t)
	}
}
