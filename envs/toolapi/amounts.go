package toolapi

import (
	"strconv"
	"strings"

	"hermes/internal/late"
)

// number is digits with marks between them, perhaps with "cents" or "and 50 cents" behind them.
var number = late.Regexp(`(?i)(\d(?:[\d.,'’\x{a0}\x{202f} ]*\d)?)(\s*(?:cents?\b|¢))?(?:\s*(?:dollars?|euros?|[$€])?\s*and\s+(\d{1,2})\s*(?:cents?\b|¢))?`)

// amounts are the numbers of a text as prices are written: 1,380 and 1.380,0 and 1 380 are
// 1380.00, and 138000 cents and 1380 dollars and 0 cents are too. Where a number can be read
// in two ways both are given.
func amounts(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range number.FindAllStringSubmatch(text, -1) {
		for _, v := range readings(m[1]) {
			switch {
			case m[3] != "":
				cents, err := strconv.ParseFloat(m[3], 64)
				if err != nil {
					continue
				}
				v += cents / 100
			case m[2] != "":
				v /= 100
			}
			out[strconv.FormatFloat(v, 'f', 2, 64)] = true
		}
	}
	return out
}

var (
	// grouped is a number whose thousands stand apart by one and the same mark.
	grouped = late.Regexp(`^\d{1,3}(?:(?:,\d{3})+|(?:\.\d{3})+|(?:['’]\d{3})+|(?:[ \x{a0}\x{202f}]\d{3})+)$`)
	blanks  = late.Regexp(`[ \x{a0}\x{202f}]`)
)

// readings are the numbers that digits with marks between them can be.
func readings(text string) (list []float64) {
	if v, ok := reading(text); ok {
		list = append(list, v)
	}
	if grouped.MatchString(text) { // 1.380 is also a number with three decimals
		if v, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", "."), 64); err == nil {
			list = append(list, v)
		}
	}
	if pieces := blanks.Split(text, -1); len(pieces) > 1 { // several numbers, one behind the other
		for _, piece := range pieces {
			if v, ok := reading(strings.Trim(piece, ".,'’")); ok {
				list = append(list, v)
			}
		}
	}
	return list
}

// reading takes the last point or comma with one or two digits behind it for the decimal one.
func reading(text string) (float64, bool) {
	whole, cents := text, ""
	if i := strings.LastIndexAny(text, ".,"); i >= 0 && len(text)-i-1 <= 2 {
		whole, cents = text[:i], text[i+1:]
	}
	if !grouped.MatchString(whole) && strings.Trim(whole, "0123456789") != "" {
		return 0, false
	}
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, whole)
	v, err := strconv.ParseFloat(digits+"."+cents+"0", 64)
	return v, err == nil
}
