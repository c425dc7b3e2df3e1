package datasets_test

import (
	"context"
	"fmt"

	"hermes/datasets"
)

// Rows of JSON lines, with a key of another name.
func ExampleInline() {
	const lines = `{"id": "a", "frage": "What is 2 + 3?", "answer": "5"}
{"id": "b", "frage": "What is 7 - 9?", "answer": "-2"}
`
	d, err := datasets.Inline("sums", lines, datasets.Options{Map: map[string]string{"frage": "question"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	for row, err := range d.Rows(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(row.ID, row.Prompt[0].Content(), string(row.Scoring.Answer))
	}
	// Output:
	// a What is 2 + 3? "5"
	// b What is 7 - 9? "-2"
}

// A bad row is an error with its place, and the rows behind it follow.
func ExampleDataset_Rows() {
	d, err := datasets.Inline("rows", "{\"prompt\": \"one\"}\n{\"prompt\": \n{\"prompt\": \"three\"}\n", datasets.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	for row, err := range d.Rows(context.Background()) {
		if err != nil {
			fmt.Println("bad")
			continue
		}
		fmt.Println(row.Prompt[0].Content())
	}
	// Output:
	// one
	// bad
	// three
}
