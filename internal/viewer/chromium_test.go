package viewer_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// browserEnv names the program of a Chromium for tests, as scripts/chromium.sh prints it.
// HERMES_TEST_SCREENSHOTS may name a folder for pictures of what was seen.
const browserEnv = "HERMES_TEST_CHROMIUM"

// browser is one tab and what its console said that is wrong.
type browser struct {
	t   *testing.T
	ctx context.Context
}

func newBrowser(t *testing.T) *browser {
	program := os.Getenv(browserEnv)
	if program == "" {
		t.Skip("no browser: " + browserEnv + " is not set (make pages)")
	}
	ctx, end := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.DisableGPU,
		chromedp.NoSandbox, chromedp.WindowSize(1280, 900))...) // the page is our own; as root there is no sandbox
	t.Cleanup(end)
	ctx, endTab := chromedp.NewContext(ctx)
	t.Cleanup(endTab)
	b := &browser{t: t, ctx: ctx}
	b.do(chromedp.Navigate("about:blank"))
	said := chromedp.Console(ctx)
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for m, err := range said {
			if err != nil {
				return // the tab is closed
			}
			if m.Type != chromedp.ConsoleLog && m.Type != chromedp.ConsoleDebug && m.Type != chromedp.ConsoleInfo {
				t.Errorf("console: %s: %s (%s)", m.Type, m.Text, m.URL)
			}
		}
	}()
	t.Cleanup(func() { endTab(); <-heard })
	return b
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) press(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		b.do(chromedp.KeyEvent(k))
	}
}

// until waits until an expression is true on the page.
func (b *browser) until(expression string) {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
			b.t.Fatalf("%s: never true (%v); the page says %.2000s", expression, err, text)
		}
	}
}

// picture keeps what is seen, when asked to.
func (b *browser) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("HERMES_TEST_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
	}
	if err != nil {
		b.t.Error(err)
	}
}

const (
	rowCount = `document.querySelectorAll("#rows tr").length`
	openID   = `document.querySelector("#detail:not([hidden]) h2")?.textContent`
	hereID   = `document.querySelector("#rows tr.here td").textContent`
)

// TestChromium looks at a run as a person would, in a real browser, by keyboard.
func TestChromium(t *testing.T) {
	b := newBrowser(t)
	dir := t.TempDir()
	makeRun(t, dir)
	url := open(t, dir).URL
	b.do(chromedp.Navigate(url))
	b.until(`document.body.dataset.ready`)
	b.until(rowCount + ` === 12`)
	b.picture("list")

	// Search, filter, sort.
	b.press("/")
	b.until(`document.activeElement.id === "q"`)
	b.until(`(document.activeElement.value = "", true)`) // the protocol sends the slash once more, as a character
	b.press("number 7", kb.Escape)
	b.until(rowCount + ` === 1`)
	b.until(`(document.querySelector("#q").value = "thinking about 8", document.querySelector("#deep").click(), true)`)
	b.until(rowCount + ` === 1 && ` + hereID + ` === "row8"`)
	choose := func(id, value string) {
		t.Helper()
		b.until(`(e => { e.value = "` + value + `"; e.dispatchEvent(new Event("input")); return true; })(document.getElementById("` + id + `"))`)
	}
	b.until(`(document.querySelector("#deep").click(), true)`)
	choose("q", "")
	choose("book", "failed.sandbox")
	b.until(rowCount + ` === 1 && ` + hereID + ` === "row3"`)
	choose("book", "")
	b.until(rowCount + ` === 12`)
	b.until(`([...document.querySelectorAll("th")].find(h => h.textContent.startsWith("reward")).click(), true)`)
	b.until(hereID + ` === "row10"`)

	// By keyboard: down to row 4, whose answer is hostile, and into it.
	b.press("j", "j", "j", "j", "j", "j", "j", "k")
	b.until(hereID + ` === "row4"`)
	b.press(kb.Enter)
	b.until(openID + `?.startsWith("row4 / 0")`)
	b.until(`document.querySelector("#detail").textContent.includes('<script>window.hacked=1</script>')`)
	b.until(`window.hacked === undefined && document.querySelectorAll("#detail img, #detail script").length === 0`)
	b.press("j", "j", "j")
	b.until(`document.querySelectorAll("#detail article")[2].classList.contains("here")`)
	b.picture("trajectory")
	b.press("m", kb.Escape)
	b.until(`document.querySelector("#detail").hidden`) // the list's keys count from here on
	b.until(hereID + ` === "row4"`)
	b.press("k", "m")
	b.until(openID + `?.includes("row4/0 →")`)
	b.until(`document.querySelectorAll("#detail .plus").length > 0 && document.querySelectorAll("#detail .minus").length > 0`)
	b.picture("diff")
	b.press(kb.Escape)
	b.until(`document.querySelector("#detail").hidden`)

	// Tokens and branches of the exact one.
	b.do(chromedp.Navigate(url + "#record/0/" + key(10, 0).String()))
	b.until(openID + `?.startsWith("row10 / 0")`)
	b.press("t")
	b.until(`document.querySelectorAll(".tokens .given").length === 14 && document.querySelectorAll(".tokens .lp0").length === 2 && document.querySelectorAll(".tokens .lp5").length === 1`)
	b.picture("tokens")
	b.press("t")
	b.until(`document.querySelector("#detail .call .state")?.textContent === "truncated" && document.querySelector("#detail p.fault").textContent === "truncated the answer ends inside a call"`)
	b.picture("verdicts")
	b.until(`([...document.querySelectorAll(".branches button")][1].click(), true)`)
	b.until(`document.querySelector("#detail article.abandoned").textContent.replaceAll("\n", "").includes("garbled")`)

	// Artifacts.
	b.do(chromedp.Navigate(url + "#record/0/" + key(1, 0).String()))
	b.until(openID + `?.startsWith("row1 / 0")`)
	b.until(`(document.querySelector("#detail details button").click(), true)`)
	b.until(`document.querySelector("pre.artifact .plus")?.textContent === "+two\n"`)
	b.press("?")
	b.until(`document.querySelector("#help").open`)
	b.picture("help")
	b.press(kb.Escape)
	b.until(`!document.querySelector("#help").open`)
	assets, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](`performance.getEntriesByType("resource").map(e => e.name)`))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range assets {
		if !strings.HasPrefix(a, url+"/") {
			t.Errorf("%s was fetched from elsewhere", a)
		}
	}
}

// TestChromiumTwoRuns: a sample is always shown under the name of its own run, though both
// runs have samples of the same keys.
func TestChromiumTwoRuns(t *testing.T) {
	b := newBrowser(t)
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	makeRun(t, one)
	makeRun(t, two)
	url := open(t, one, two).URL
	b.do(chromedp.Navigate(url + "#record/1/" + key(1, 0).String()))
	b.until(`document.body.dataset.ready && ` + openID + `?.includes("run two")`)
	b.until(`document.title === "two · hermes" && document.querySelector("#run").value === "1" && document.querySelector("#summary").textContent.includes("/two")`)
	b.until(rowCount + ` === 12`)
	// The other run is chosen while a sample is open: the list of that run is shown.
	b.until(`(e => { e.value = "0"; e.dispatchEvent(new Event("input")); return true; })(document.getElementById("run"))`)
	b.until(`document.querySelector("#detail").hidden && document.title === "one · hermes" && ` + rowCount + ` === 12`)
	// A row that is clicked before the list of a chosen run is there is not opened under its name.
	b.until(`(e => { const row = document.querySelector("#rows tr"); e.value = "1"; e.dispatchEvent(new Event("input")); row.click(); return true; })(document.getElementById("run"))`)
	b.until(`document.title === "two · hermes" && ` + rowCount + ` === 12 && document.querySelector("#detail").hidden`)
	b.press(kb.Enter)
	b.until(openID + `?.includes("run two")`)
}
