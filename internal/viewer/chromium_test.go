package viewer_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"hermes/rollout/journal"
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
	ctx, cancel := context.WithTimeout(b.ctx, 3*time.Minute)
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

	// The page starts with the list of runs; a click leads to the page of the run.
	b.until(`document.querySelectorAll("#home tbody tr").length === 1 && document.querySelector("#home tbody").textContent.includes("12 of 12")`)
	b.picture("runs")
	b.press("j", kb.Enter)
	b.until(`document.querySelector("#overview h1")?.textContent === "` + filepath.Base(dir) + `"`)
	b.until(`document.querySelector("#overview").innerText.includes("the box was lost") && document.querySelector("#overview").innerText.includes("failed.sandbox")`)
	b.until(`[...document.querySelectorAll("#overview h2")].map(h => h.textContent).join() === "Books,Rewards,Failures by cause,Settings"`)
	b.picture("run")
	b.until(`(document.querySelector("#tab-tasks").click(), true)`)
	b.until(`document.querySelectorAll("#tasks tbody tr").length === 11`)
	b.picture("tasks")
	b.until(`([...document.querySelectorAll("#tasks tbody a")].find(a => a.textContent === "row1").click(), true)`)
	b.until(rowCount + ` === 2 && document.querySelector("#summary").textContent.includes("task row1")`)
	b.until(`(document.querySelector("#summary button").click(), true)`)
	b.until(rowCount + ` === 12`)
	b.until(`document.querySelectorAll("#rows .reward").length === 11 && document.querySelector("#rows .rw9").textContent === "0.9"`)
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
	b.until(`([...document.querySelectorAll("#heads th")].find(h => h.textContent.startsWith("reward")).click(), true)`)
	b.until(hereID + ` === "row10"`)

	// By keyboard: down to row 4, whose answer is hostile, and into it.
	b.press("j", "j", "j", "j", "j", "j", "j", "k")
	b.until(hereID + ` === "row4"`)
	b.press(kb.Enter)
	b.until(openID + `?.startsWith("row4 / 0")`)
	b.until(`document.querySelector("#detail").textContent.includes('<script>window.hacked=1</script>')`)
	b.until(`window.hacked === undefined && document.querySelectorAll("#detail img, #detail script").length === 0`)
	b.until(`document.querySelector("#detail .verdict").textContent.includes("reward 0.4")`)
	b.press("r")
	b.until(`document.querySelectorAll("#detail .md").length === 0 && document.querySelectorAll("#detail article pre.text").length > 0`)
	b.press("r")
	b.until(`document.querySelectorAll("#detail .md").length > 0`)
	b.until(`(document.querySelector("#json").click(), true)`)
	b.until(`JSON.parse(document.querySelector("pre.rawjson").textContent || "{}").row === "row4"`)
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

// TestChromiumTwoRuns: a sample is always shown under the name of its run, though both
// runs have samples of the same keys.
func TestChromiumTwoRuns(t *testing.T) {
	b := newBrowser(t)
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	makeRun(t, one)
	makeRun(t, two)
	url := open(t, one, two).URL
	b.do(chromedp.Navigate(url + "#record/1/" + key(1, 0).String()))
	b.until(`document.body.dataset.ready && ` + openID + `?.includes("run two")`)
	b.until(`document.title === "two · hermes" && document.querySelector("#run").value === "1"`)
	b.press(kb.Escape)
	b.until(rowCount + ` === 12 && document.querySelector("#summary").textContent.includes("/two")`)
	b.press(kb.Enter)
	b.until(openID + `?.includes("run two")`)
	// The other run is chosen while a sample is open: the list of that run is shown.
	b.until(`(e => { e.value = "0"; e.dispatchEvent(new Event("input")); return true; })(document.getElementById("run"))`)
	b.until(`document.querySelector("#detail").hidden && document.title === "one · hermes" && ` + rowCount + ` === 12`)
	// A row that is clicked before the list of a chosen run is there is not opened under its name.
	b.until(`(e => { const row = document.querySelector("#rows tr"); e.value = "1"; e.dispatchEvent(new Event("input")); row.click(); return true; })(document.getElementById("run"))`)
	b.until(`document.title === "two · hermes" && ` + rowCount + ` === 12 && document.querySelector("#detail").hidden`)
	b.press(kb.Enter)
	b.until(openID + `?.includes("run two")`)
}

// TestChromiumKeys: a key counts for the page that the key before it has opened, however soon
// it comes, and what an address leads to is never shown under another one.
func TestChromiumKeys(t *testing.T) {
	b := newBrowser(t)
	dir := t.TempDir()
	makeRun(t, dir)
	b.do(chromedp.Navigate(open(t, dir).URL + "#record/0/" + key(1, 0).String()))
	b.until(`document.body.dataset.ready && ` + openID + `?.startsWith("row1 / 0") && document.title.startsWith("` + filepath.Base(dir) + `")`)
	b.until(rowCount + ` === 12`)
	seen, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`["Escape", "j", "j", "Enter", "n", "Escape", "Escape", "Escape", "j", "Enter"].map(key => {
		document.dispatchEvent(new KeyboardEvent("keydown", {key}));
		return key + " " + document.querySelector("main > section:not([hidden])").id + " " + document.querySelectorAll("#detail h2").length;
	}).join()`))
	want := "Escape list 1,j list 1,j list 1,Enter detail 0,n detail 0,Escape list 0,Escape overview 0,Escape home 0,j home 0,Enter overview 0"
	if err != nil || seen != want {
		t.Errorf("%s, want %s; %v", seen, want, err)
	}
	b.until(`document.querySelector("#overview:not([hidden]) h1")?.textContent === "` + filepath.Base(dir) + `"`)
	b.until(`document.querySelectorAll("main > section:not([hidden])").length === 1`)
}

// TestChromiumBundle: the folder that Export writes shows the same, opened from disk and from a
// server of files, with no console message and nothing from elsewhere.
func TestChromiumBundle(t *testing.T) {
	dir, out := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "out")
	makeRun(t, dir)
	export(t, out, dir)
	files := httptest.NewServer(http.FileServer(http.Dir(out)))
	defer files.Close()
	for name, url := range map[string]string{"disk": (&url.URL{Scheme: "file", Path: out + "/index.html"}).String(), "server": files.URL + "/"} {
		t.Run(name, func(t *testing.T) {
			b := newBrowser(t)
			b.do(chromedp.Navigate(url))
			b.until(`document.body.dataset.ready && document.querySelector("#home tbody").textContent.includes("12 of 12")`)
			b.press("j", kb.Enter)
			b.until(`document.querySelector("#overview").innerText.includes("the box was lost")`)
			b.until(`(document.querySelector("#tab-tasks").click(), true)`)
			b.until(`document.querySelectorAll("#tasks tbody tr").length === 11`)
			b.until(`(document.querySelector("#tab-samples").click(), true)`)
			b.until(rowCount + ` === 12`)
			b.until(`([...document.querySelectorAll("#heads th")].find(h => h.textContent.startsWith("reward")).click(), true)`)
			b.until(hereID + ` === "row10"`)
			b.until(`(e => { e.value = "task number 7"; e.dispatchEvent(new Event("input")); return true; })(document.getElementById("q"))`)
			b.until(rowCount + ` === 1 && ` + hereID + ` === "row7"`)
			b.until(`(e => { e.value = ""; e.dispatchEvent(new Event("input")); return true; })(document.getElementById("q"))`)
			b.until(rowCount + ` === 12`)
			b.do(chromedp.Navigate(url + "#record/0/" + key(4, 0).String()))
			b.until(openID + `?.startsWith("row4 / 0") && document.querySelector("#detail").textContent.includes('<script>window.hacked=1</script>')`)
			b.until(`window.hacked === undefined && document.querySelectorAll("#detail img, #detail script").length === 0`)
			b.until(`(document.querySelector("#json").click(), true)`)
			b.until(`JSON.parse(document.querySelector("pre.rawjson").textContent || "{}").row === "row4"`)
			b.do(chromedp.Navigate(url + "#record/0/" + key(1, 0).String()))
			b.until(openID + `?.startsWith("row1 / 0")`)
			b.until(`(document.querySelector("#detail details button").click(), true)`)
			b.until(`document.querySelector("pre.artifact .plus")?.textContent === "+two\n"`)
			b.until(`document.querySelectorAll("head script").length === 1`)
			b.picture("bundle-" + name)
		})
	}
}

// TestChromiumMarkdown: what a model writes as Markdown is shown so, in elements that hold text,
// and no text keeps the page busy.
func TestChromiumMarkdown(t *testing.T) {
	b := newBrowser(t)
	dir := t.TempDir()
	d := openRun(t, dir, 8, journal.Options{})
	texts := []string{
		"# Title\n\nSome **bold**, *soft*, `code` and ~~gone~~ a_b_c.\n\n- one\n  - inner\n- two\n\n1. first\n2. second\n\n> quoted\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n```go\nx := <b>1</b>\n```\n\n---\n",
		"[good](https://example.org/a) [bad](javascript:alert(1)) [data](data:text/html,x) ![i](https://example.org/i.png) <https://example.org/c> http://example.org/d. [f](file:///etc/passwd) [r](/local) <img src=x>",
		strings.Repeat("*",
			90000), strings.Repeat("**a ",
			20000), strings.Repeat("[a](", 20000), strings.Repeat("`", 50001) + "a", strings.Repeat("> ", 40000), strings.Repeat("- a\n", 20000),
	}
	for i, text := range texts {
		if _, err := d.Journal.Append(t.Context(), textRecord(t, i, 0, text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	url := open(t, dir).URL
	last := `[...document.querySelectorAll("#detail article.assistant .md")].at(-1)`
	b.do(chromedp.Navigate(url + "#record/0/" + key(0, 0).String()))
	b.until(openID + `?.startsWith("row0 / 0")`)
	b.until(`(m => m.querySelector("h3").textContent === "Title" && m.querySelector("strong").textContent === "bold" && m.querySelector("em").textContent === "soft" && m.querySelector("del").textContent === "gone" &&
		m.querySelector("ul > li > ul > li").textContent === "inner" && m.querySelectorAll("ol > li").length === 2 && m.querySelector("blockquote").textContent === "quoted" && m.querySelectorAll("td").length === 2 &&
		m.querySelector("pre.code").textContent === "x := <b>1</b>" && m.querySelector("hr") && m.querySelector("p").textContent === "Some bold, soft, code and gone a_b_c.")(` + last + `)`)
	b.picture("markdown")
	b.do(chromedp.Navigate(url + "#record/0/" + key(1, 0).String()))
	b.until(openID + `?.startsWith("row1 / 0")`)
	b.until(`(m => [...m.querySelectorAll("a")].map(a => a.href).join(" ") === "https://example.org/a https://example.org/i.png https://example.org/c http://example.org/d" &&
		[...m.querySelectorAll("a")].every(a => a.rel === "noreferrer noopener" && a.target === "_blank") && m.querySelectorAll("img").length === 0 && m.textContent.includes("[bad](javascript:alert") && m.textContent.includes("<img src=x>"))(` + last + `)`)
	for i := range texts[2:] {
		begun := time.Now()
		b.do(chromedp.Navigate(url + "#record/0/" + key(i+2, 0).String()))
		b.until(fmt.Sprintf(openID+`?.startsWith("row%d / 0")`, i+2))
		t.Logf("text %d was shown in %v", i+2, time.Since(begun).Round(time.Millisecond))
	}
}
