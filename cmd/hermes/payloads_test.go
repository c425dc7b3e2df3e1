package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"hermes/envs/grade/figures"
	"hermes/envs/grade/report"
	"hermes/internal/printable"
	"hermes/rollout/artifact"
	"hermes/rollout/rundir"
	"hermes/trajectory"
)

// payload is a text that runs as a program where a page takes it in unescaped. Its program
// sets a variable, opens a dialog and asks another server.
type payload struct{ name, text, control string } // control: a page with %s that it fires on; empty: none does

const onClick = `<script>onload=()=>document.querySelector("a").click()</script>`

// payloads are what a model, a server, a dataset, a tool or a file name may hold. Their
// program asks spy, by names of them.
func payloads(spy string) []payload {
	js := func(name string) string {
		return fmt.Sprintf("window.pwned=`%s`,new Image().src=`%s/%s`,alert(1)", name, spy, name)
	}
	list := []payload{
		{"script", `<script>JS</script>`, `%s`},
		{"img", `"><img src=x onerror="JS">`, `<p title="%s">`},
		{"textarea", `</textarea></title></style></pre><img src=x onerror='JS'>`, `<title>%s`},
		{"close", `</script><script>JS</script>`, `<script>var x = "%s`},
		{"svg", `<svg onload="JS">`, `%s`},
		{"text", `</text></svg><svg><animate onbegin="JS" attributeName=x dur=1s></svg>`, `<svg><text>%s`},
		{"single", `' onmouseover='JS' autofocus tabindex=1 onfocus='JS`, `<p title='%s'>x</p>`},
		{"double", `" onmouseover="JS" autofocus tabindex=1 onfocus="JS`, `<p title="%s">x</p>`},
		{"bare", `x onmouseover=JS`, `<p title=%s>x</p>`},
		{"string", `";JS;//`, `<script>var x="%s";</script>`},
		{"literal", "${JS}", "<script>var x=`%s`;</script>"},
		{"link", `javascript:JS`, onClick + `<a href="%s">x</a>`},
		{"markdown", "[x](javascript:JS) ![x](SPY/markdown) <SPY/markdown> [<img src=x onerror='JS'>](SPY/markdown) SPY/markdown", ``}, // read by a program of the page
		{"lines", "\u2028JS\u2029", `<script>// %s` + "\n</script>"},
		{"template", `{{constructor.constructor('JS')()}}`, ``}, // a framework's, and there is none
		{"frame", `<iframe srcdoc="<script>parent.JS</script>"></iframe>`, `%s`},
		{
			"elsewhere",
			`<meta http-equiv=refresh content="0;url=SPY/elsewhere"><base href="SPY/"><link rel=stylesheet href="SPY/elsewhere"><img src="SPY/elsewhere">`,
			`%s`,
		},
		{"style", `</style><style>*{background:url(SPY/style)}</style>`, `<style>%s</style>x`},
		{"form", `<form action="SPY/form"></form><img src=x onerror="document.forms[0].submit()">`, `%s`},
	}
	all := ""
	for i, p := range list {
		list[i].text = strings.NewReplacer("parent.JS", strings.ReplaceAll("parent."+js(p.name), "alert", "parent.alert"),
			"JS", js(p.name), "SPY", spy).Replace(p.text)
		all += list[i].text
	}
	list[8].text = "x onmouseover=window.pwned=`bare`,new/**/Image().src=`" + spy + "/bare`,alert(1)"
	list[10].text = "${window.pwned='literal',new Image().src='" + spy + "/literal',alert(1)}"
	return append(list, payload{"all", all, `%s`})
}

// infest sets every text of a value, and every name of its maps, and gives numbers.
func infest(v reflect.Value, text string) {
	switch x := v.Addr().Interface().(type) {
	case *json.RawMessage:
		b, _ := json.Marshal(map[string]string{text: text}) // texts can be written
		*x = b
		return
	case *trajectory.Key, **trajectory.Trace, *[]*trajectory.Record, *[]trajectory.Judged, *time.Time:
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(2)
	case reflect.Float64, reflect.Float32:
		v.SetFloat(0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		infest(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			infest(v.Index(i), text)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		infest(key, text)
		infest(value, text)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				infest(v.Field(i), text)
			}
		}
	}
}

func infested[T any](text string) *T {
	var v T
	infest(reflect.ValueOf(&v).Elem(), text)
	return &v
}

// infestedRecord is a sample all of whose texts are a payload: two branches of turns of
// every role with calls, faults and files.
func infestedRecord(t *testing.T, i int, text string) *trajectory.Record {
	t.Helper()
	tr := trajectory.New(trajectory.ModeText, nil)
	message := func(role trajectory.Role, parts ...trajectory.Part) trajectory.Delta {
		m := *infested[trajectory.Message](text)
		m.Role = role
		m.Ephemeral = false
		m.Opaque = nil
		m.Parts = append([]trajectory.Part{{Kind: trajectory.PartText, Text: text}}, parts...)
		if role != trajectory.Assistant {
			m.Calls, m.Reasoning = nil, ""
		}
		return trajectory.Delta{Message: m}
	}
	image := trajectory.Part{Kind: "image", URL: "data:image/svg+xml," + text, MediaType: text}
	turn := func() trajectory.Turn {
		return trajectory.Turn{
			Given: []trajectory.Delta{
				message(trajectory.System),
				message(trajectory.User, image, trajectory.Part{Kind: "image", URL: text}, trajectory.Part{Kind: "image", URL: "data:image/png;" + text}),
			},
			Sampled: message(trajectory.Assistant),
			Finish:  trajectory.Finish(text),
			Model:   text,
			Faults:  []trajectory.Fault{*infested[trajectory.Fault](text)},
		}
	}
	if _, err := tr.Commit(turn()); err != nil {
		t.Fatal(err)
	}
	if err := tr.Rewind(0, trajectory.Abandoned); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Commit(turn()); err != nil {
		t.Fatal(err)
	}
	tool := message(trajectory.Tool)
	tr.Finish([]trajectory.Message{tool.Message})
	r := infested[trajectory.Record](text)
	r.Key = trajectory.NewKey(fmt.Sprint(i), 0, 0, 0)
	r.Sample = 0
	r.Attempt = 1
	r.Trace = tr
	r.Started = time.Unix(int64(i), 0).UTC()
	r.Row, r.Group = text+fmt.Sprint(i), text+fmt.Sprint(i)
	r.Outcome = trajectory.Answered
	if i%2 == 0 {
		r.Outcome, r.Score = trajectory.Sandbox, nil
	}
	r.Judge.Members = []trajectory.Judged{*infested[trajectory.Judged](text)}
	child := *r
	child.Children = nil
	r.Children = []*trajectory.Record{&child}
	return r
}

// fileName is a payload that may be a file's name.
func fileName(text string) string {
	text = strings.ReplaceAll(text, "/", "")
	return text[:min(len(text), 200)]
}

// infestedRun makes a run whose records hold one payload each, in a folder of such a name.
func infestedRun(t *testing.T, dir string, list []payload) {
	t.Helper()
	m := rundir.Manifest{Version: "1", Identity: rundir.Fields{{Name: "model", Value: list[0].text}, {Name: list[1].text, Value: list[1].text}},
		Extent: rundir.Extent{Planned: int64(len(list)), Rollouts: 1}, Books: rundir.Books{Mode: "batch"}}
	for _, p := range list {
		m.Tools = append(m.Tools, p.text)
	}
	d, err := rundir.Open(t.Context(), dir, m, rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range list {
		r := infestedRecord(t, i, p.text)
		if _, err := d.Journal.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		kept := artifact.Dir(filepath.Join(dir, "artifacts"), r.Row, 0)
		if err := os.MkdirAll(kept, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{fileName(p.text), "page.html", "image.svg", "a.diff"} {
			if err := os.WriteFile(filepath.Join(kept, name), []byte(p.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// watcher runs in every document before its own scripts do.
const watcher = `window.seen = [];
for (const n of ["alert", "confirm", "prompt", "print", "open"]) window[n] = () => { seen.push(n) };
document.addEventListener("securitypolicyviolation", e => seen.push("refused " + e.violatedDirective + " " + e.blockedURI), true);`

// census moves the pointer over everything, and says what of the page is not of ours.
const census = `(() => {
for (const e of document.querySelectorAll("*")) { e.dispatchEvent(new MouseEvent("mouseover", {bubbles: true})); if (e.tabIndex >= 0 && e.focus) e.focus(); }
const bad = [...document.querySelectorAll("*")].filter(e => [...e.attributes].some(a => /^on|^srcdoc$|^autofocus$|^attributename$/i.test(a.name))
  || /^(iframe|frame|object|embed|base|form|animate|textarea)$/i.test(e.tagName) || e.tagName === "SCRIPT" && e.getAttribute("src") !== "app.js"
  || e.tagName === "LINK" && !["data:,", "style.css"].includes(e.getAttribute("href")) || e.tagName === "META" && /url=/i.test(e.content)
  || e.tagName === "IMG" && !/^data:image\/(png|jpeg|gif|webp);/.test(e.src)
  || e.tagName === "A" && !["http:", "file:"].includes(e.protocol) || e.tagName === "A" && e.host !== location.host && !(e.matches(".md a.out") && e.rel === "noreferrer noopener" && e.target === "_blank")).map(e => e.outerHTML.slice(0, 200));
const asked = performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:") && new URL(n).host !== location.host);
return JSON.stringify({pwned: window.pwned, seen, bad, asked});
})()`

// TestChromiumPayloads opens every page of ours, made of nothing but payloads, in a real
// browser: nothing of them runs, asks anybody, opens or leads elsewhere, and the policy of
// the page would have refused it. Unescaped, each of them fires.
func TestChromiumPayloads(t *testing.T) {
	program := os.Getenv("HERMES_TEST_CHROMIUM")
	if program == "" {
		t.Skip("no browser: HERMES_TEST_CHROMIUM is not set (make pages)")
	}
	var hits atomic.Int64
	spy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer spy.Close()
	list := payloads(spy.URL)

	ctx, end := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.DisableGPU,
		chromedp.NoSandbox, chromedp.WindowSize(1280, 900))...)
	defer end()
	ctx, endTab := chromedp.NewContext(ctx)
	defer endTab()
	do := func(steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(ctx, steps...); err != nil {
			t.Fatal(err)
		}
	}
	eval := func(expression string) string {
		t.Helper()
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string](expression))
		if err != nil {
			t.Fatalf("%.60s: %v", expression, err)
		}
		return text
	}
	until := func(expression string) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for wait := time.After(3 * time.Minute); eval("String(!!("+expression+"))") != "true"; {
			select {
			case <-tick.C:
			case <-wait:
				t.Fatalf("%s: never true; %s", expression, eval("location.href + document.body?.innerText.slice(0, 1000)"))
			}
		}
	}
	do(func(ctx context.Context, x *chromedp.Target) (none chromedp.Void, err error) {
		_, err = cdp.Call(ctx, x, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watcher})
		return none, err
	})

	// A payload that fires may send its page elsewhere at that moment, which aborts what was asked
	// for: it is asked for again.
	visit := func(address string) {
		t.Helper()
		for try := 1; ; try++ {
			err := chromedp.Do(ctx, chromedp.Navigate(address))
			if err == nil {
				return
			}
			if try == 50 || !strings.Contains(err.Error(), "ERR_ABORTED") {
				t.Fatal(err)
			}
		}
	}

	// The control: without escapes each of them fires, here and in this browser.
	var raw string
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, raw)
	}))
	defer bare.Close()
	for _, p := range list {
		if p.control == "" {
			continue
		}
		raw = "<!doctype html><meta charset=utf-8>" + strings.ReplaceAll(p.control, "%s", p.text)
		before := hits.Load()
		visit(bare.URL)
		eval(census)
		for wait := time.Now().Add(3 * time.Minute); hits.Load() == before && time.Now().Before(wait); {
			eval("''") // a round through the browser
		}
		if hits.Load() == before {
			t.Errorf("%s is no attack: a page that takes it in as it is does nothing: %s", p.name, raw)
		}
	}
	visit("about:blank")
	hits.Store(0)

	seen := 0
	look := func(what string) {
		t.Helper()
		seen++
		at := eval("location.href")
		eval(census)
		eval(`(window.settled = false, setTimeout(() => { window.settled = true }, 20), "")`)
		until("window.settled")
		if got := eval(census); got != `{"seen":[],"bad":[],"asked":[]}` {
			t.Errorf("%s: %s", what, got)
		}
		if now := eval("location.href"); now != at {
			t.Errorf("%s: the page went from %s to %s", what, at, now)
		}
	}
	picture := func(name string) {
		if dir := os.Getenv("HERMES_TEST_SCREENSHOTS"); dir != "" {
			png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	// policy: what a page's own program could do if one slipped in: nothing.
	policy := func(what, text string) {
		t.Helper()
		for _, want := range []string{"default-src 'none'", "base-uri 'none'", "form-action 'none'"} {
			if !strings.Contains(text, want) {
				t.Errorf("the policy of %s is %q, without %s", what, text, want)
			}
		}
		if strings.Contains(text, "script-src") && !strings.Contains(text, "script-src 'self';") {
			t.Errorf("the policy of %s lets scripts in: %q", what, text)
		}
	}
	open := func(what, file string) {
		t.Helper()
		do(chromedp.Navigate((&url.URL{Scheme: "file", Path: file}).String()))
		until("document.body")
		policy(what, eval(`document.head.querySelector("meta[http-equiv=Content-Security-Policy]")?.content ?? ""`))
		look(what)
	}
	served := func(what, address string) {
		t.Helper()
		resp, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		policy(what, resp.Header.Get("Content-Security-Policy"))
		if resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s may be sniffed", what)
		}
	}

	// Pages as files.
	dir := t.TempDir()
	write := func(name string, html func(*bytes.Buffer) error) string {
		t.Helper()
		var b bytes.Buffer
		if err := html(&b); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, p := range list {
		r := infested[report.Report](p.text)
		r.Metrics["reward"] = *infested[figures.Estimate](p.text)
		open("report.html with "+p.name, write("report.html", func(b *bytes.Buffer) error { return r.HTML(b) }))
		m := infested[report.Matrix](p.text)
		for i := range m.Cells {
			m.Cells[i].Metrics["reward"] = r.Metrics["reward"]
		}
		m.Cells[0].Missing, m.Comparison[0].Missing = "", ""
		open("matrix.html with "+p.name, write("matrix.html", func(b *bytes.Buffer) error { return m.HTML(b) }))
	}
	open("report.html", filepath.Join(dir, "report.html"))
	picture("report")
	open("matrix.html", filepath.Join(dir, "matrix.html"))
	picture("matrix")

	// Groups of an environment whose rows are hostile.
	var rows bytes.Buffer
	for _, p := range list {
		line, err := json.Marshal(map[string]any{
			"id":       p.text[:min(len(p.text), 512)],
			"prompt":   p.text,
			"files":    map[string]string{"a": p.text},
			"solution": "cat a; : '" + strings.ReplaceAll(p.text, "'", "") + "'; cp a out.txt",
			"checks":   []map[string]string{{"kind": "contains", "path": "out.txt", "text": p.text}},
		})
		if err != nil {
			t.Fatal(err)
		}
		rows.Write(append(line, '\n'))
	}
	if err := os.WriteFile(filepath.Join(dir, "rows.jsonl"), rows.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out := fileName(list[1].text)
	if said, err := hermes(t, dir, "env", "process", "terminal_test", "--set", "dataset=rows.jsonl", "--groups", fmt.Sprint(len(list)), "--group-size", "1", "--model", "oracle", "--backend", "local",
		"--progress", "none", "--out", out, "--run", "r").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	groups := filepath.Join(dir, out, "r", "groups.html")
	text, err := os.ReadFile(groups)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if !strings.Contains(html.UnescapeString(string(text)), printable.Text(p.text)) {
			t.Errorf("groups.html does not show %q", p.text)
		}
	}
	open("groups.html", groups)
	eval(`(document.querySelectorAll("details").forEach(d => { d.open = true }), "")`)
	look("groups.html, opened")
	picture("groups")

	// The dashboard of run-api.
	api := command(t, "run-api", "--port", "0")
	post := func(path string, body map[string]any) {
		t.Helper()
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(api+path, "application/json", bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusOK {
			t.Fatal(path, resp.Status)
		}
	}
	var wants map[string]any
	if err := json.Unmarshal([]byte(trainerWants), &wants); err != nil {
		t.Fatal(err)
	}
	for k, v := range wants {
		if _, ok := v.(string); ok {
			wants[k] = list[1].text
		}
	}
	post("/register", wants)
	if resp, err := http.Get(api + "/batch"); err != nil { // the trainer has begun: environments may come
		t.Fatal(err)
	} else {
		resp.Body.Close()
	}
	for _, p := range list {
		post("/register-env", map[string]any{"max_token_length": 64, "desired_name": p.text[:min(len(p.text), 512)], "weight": 1, "group_size": 2})
	}
	served("dashboard", api+"/dashboard")
	do(chromedp.Navigate(api + "/dashboard"))
	until(`document.body?.innerText.includes("onerror")`)
	look("dashboard")
	picture("dashboard")
	for _, p := range []string{"/status", "/info", "/metrics", "/wandb_info"} {
		do(chromedp.Navigate(api + p))
		look("run-api" + p)
	}

	// The page of runs: the list, every sample with its files and branches, two beside each other.
	dir = t.TempDir()
	run := filepath.Join(dir, fileName(list[1].text))
	infestedRun(t, run, list)
	infestedRun(t, filepath.Join(dir, "two"), list[:2])
	view := command(t, "runs", "view", run, filepath.Join(dir, "two"))
	for _, p := range []string{"/", "/app.js", "/api/runs", "/api/list?run=0"} {
		served("the page of runs, "+p, view+p)
	}
	do(chromedp.Navigate(view + "/"))
	until(`document.body?.dataset.ready && document.querySelectorAll("#home tbody tr").length === 2`)
	look("the list of runs")
	do(chromedp.Navigate(view + "/#run/0"))
	until(`document.querySelector("#overview h1")`)
	look("the page of a run")
	picture("run")
	do(chromedp.Navigate(view + "/#tasks/0"))
	until(`document.querySelectorAll("#tasks tbody tr").length === ` + fmt.Sprint(len(list)))
	look("the tasks of a run")
	do(chromedp.Navigate(view + "/#samples/0"))
	until(`document.body?.dataset.ready && document.querySelectorAll("#rows tr").length === ` + fmt.Sprint(len(list)))
	look("the list of a run")
	picture("list")
	for i, p := range list {
		key := trajectory.NewKey(fmt.Sprint(i), 0, 0, 0).String()
		do(chromedp.Navigate(view + "/#record/0/" + key))
		until(`document.querySelector("#detail:not([hidden]) h2 small")?.textContent.includes("` + key + `")`)
		until(`document.querySelectorAll("#detail details button").length === 4`)
		until(`document.querySelectorAll("#detail .branches button").length === 2`)
		shown, err := json.Marshal(strings.NewReplacer("\u2028", "", "\u2029", "").Replace(p.text))
		if err != nil {
			t.Fatal(err)
		}
		until(`document.querySelector("#detail").textContent.replace(/[\u2028\u2029]/g, "").includes(` + string(shown) + `)`)
		look("a sample with " + p.name)
		for n := range 4 {
			eval(fmt.Sprintf(`(document.querySelector("pre.artifact").hidden = true, document.querySelectorAll("#detail details button")[%d].click(), "")`, n))
			until(`!document.querySelector("pre.artifact").hidden`)
			look(fmt.Sprint("file ", n, " of a sample with ", p.name))
		}
		eval(`(document.querySelectorAll(".branches button")[1].click(), "")`)
		look("a branch with " + p.name)
		eval(`(document.querySelector("#json").click(), document.querySelectorAll("details").forEach(d => { d.open = true }), "")`)
		until(`document.querySelector("pre.rawjson").textContent`)
		look("raw JSON with " + p.name)
		if i == len(list)-1 {
			picture("sample")
		}
	}
	key := func(i int) string { return trajectory.NewKey(fmt.Sprint(i), 0, 0, 0).String() }
	do(chromedp.Navigate(view + "/#diff/0:" + key(0) + "/0:" + key(len(list)-1)))
	until(`document.querySelectorAll("#detail .plus").length > 0`)
	look("a difference")
	for _, p := range []string{
		"/artifact?run=0&name=page.html&key=" + key(0), "/artifact?run=0&name=image.svg&key=" + key(4),
		"/api/record?run=0&key=" + key(0),
		"/api/list?run=0", "/api/runs", "/artifact?run=0&key=" + key(0) + "&name=" + url.QueryEscape(list[0].text), "/blob?run=0&name=" + url.QueryEscape(list[0].text),
		"/api/record?run=0&key=" + url.QueryEscape(list[0].text), "/api/list?run=" + url.QueryEscape(list[0].text), "/" + url.PathEscape(list[0].text),
	} {
		served(p, view+p)
		do(chromedp.Navigate(view + p))
		look(p)
	}
	// The same pages as a folder, opened from disk.
	bundle := filepath.Join(dir, "bundle")
	if said, err := hermes(t, dir, "runs", "view", run, "--export", bundle).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	disk := (&url.URL{Scheme: "file", Path: filepath.Join(bundle, "index.html")}).String()
	open("a bundle", filepath.Join(bundle, "index.html"))
	for _, part := range []string{"run", "tasks", "samples"} {
		do(chromedp.Navigate(disk + "#" + part + "/0"))
		until(`document.querySelector("main > section:not([hidden]) tbody tr")`)
		look("a bundle, " + part)
	}
	for i, p := range list {
		do(chromedp.Navigate(disk + "#record/0/" + key(i)))
		until(`document.querySelector("#detail:not([hidden]) h2 small")?.textContent.includes("` + key(i) + `")`)
		eval(`(document.querySelector("#json").click(), document.querySelectorAll("#detail details button")[1].click(), "")`)
		until(`document.querySelector("pre.rawjson").textContent && !document.querySelector("pre.artifact").hidden`)
		look("a sample of a bundle with " + p.name)
	}
	do(chromedp.Navigate(view + "/#" + list[len(list)-1].text))
	until(`document.body?.dataset.ready`)
	look("a link that is a payload")
	if n := hits.Load(); n != 0 {
		t.Errorf("another server was asked %d times", n)
	}
	t.Logf("%d pages and states of them, %d payloads: 0 fired", seen, len(list))
}
