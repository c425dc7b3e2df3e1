package procedural

// Checks of other people's rows: see reasoninggym_test.go.
var (
	SudokuCheck  = sudokuCheck
	HanoiCheck   = hanoiCheck
	QueensCheck  = queensCheck
	Check24      = check24
	AnagramCheck = anagramCheck
	OneWord      = oneWord
)

// Judge is what Score asks.
func (z Puzzle) Judge(answer string) error { return z.judge(answer) }
