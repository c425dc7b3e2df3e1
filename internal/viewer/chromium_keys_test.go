package viewer_test

import (
	"net/url"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestChromiumKeyboard: a table is sorted by a heading that has the focus, which keeps it; a row
// is opened by its link.
func TestChromiumKeyboard(t *testing.T) {
	b := newBrowser(t)
	dir := t.TempDir()
	makeRun(t, dir)
	base := open(t, dir).URL + "/"
	b.do(chromedp.Navigate(base + "#samples/0"))
	b.until(`document.body.dataset.ready && ` + rowCount + ` === 12`)
	b.until(`(document.querySelector('#heads [data-sort="reward"]').focus(), true)`)
	b.press(kb.Enter)
	b.until(hereID + ` === "row10" && document.activeElement.dataset.sort === "reward"`)
	b.until(`document.querySelector('#heads th[aria-sort="descending"]').textContent.startsWith("reward")`)
	b.press(kb.Enter)
	b.until(hereID + ` === "row3" && document.querySelector('#heads th[aria-sort="ascending"]')`)
	b.until(`(document.querySelector("#rows tr:nth-child(2) a").focus(), true)`)
	b.press(kb.Enter)
	b.until(openID + `?.startsWith("row0 / 0")`)

	b.do(chromedp.Navigate(base + "#tasks/0"))
	b.until(`document.querySelectorAll("#tasks tbody tr").length === 11`)
	b.until(`(document.querySelector('#tasks [data-sort="samples"]').focus(), true)`)
	b.press(kb.Enter)
	b.until(`document.querySelector("#tasks tbody a").textContent === "row1" && document.activeElement.dataset.sort === "samples"`)
	b.until(`(e => { e.value = "number 7"; e.dispatchEvent(new Event("input")); return true; })(document.getElementById("q"))`)
	b.until(`document.querySelectorAll("#tasks tbody tr").length === 1 && document.querySelector("#tasks tbody a").textContent === "row7"`)
}

// TestChromiumBundleTasks: tasks of a bundle are searched and sorted as those of the server.
func TestChromiumBundleTasks(t *testing.T) {
	b := newBrowser(t)
	dir, out := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "out")
	makeRun(t, dir)
	export(t, out, dir)
	b.do(chromedp.Navigate((&url.URL{Scheme: "file", Path: out + "/index.html"}).String() + "#tasks/0"))
	b.until(`document.body.dataset.ready && document.querySelectorAll("#tasks tbody tr").length === 11`)
	b.until(`(document.querySelector('#tasks [data-sort="mean"]').click(), true)`)
	b.until(`document.querySelector("#tasks tbody a").textContent === "row3"`)
	b.until(`(e => { e.value = "TASK number 7"; e.dispatchEvent(new Event("input")); return true; })(document.getElementById("q"))`)
	b.until(`document.querySelectorAll("#tasks tbody tr").length === 1 && document.querySelector("#tasks tbody a").textContent === "row7"`)
	b.until(`(e => { e.value = "answer"; e.dispatchEvent(new Event("input")); return true; })(document.getElementById("q"))`)
	b.until(`document.querySelector("#tasks").textContent.includes("no tasks")`)
}
