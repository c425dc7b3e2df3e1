package api_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"hermes/internal/atropos/api"
	"hermes/internal/guard"
)

// peer is a server under test and a client of it.
type peer struct {
	t    *testing.T
	api  *api.Server
	http *httptest.Server
}

func serve(t *testing.T, o api.Options) *peer {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	s, _, err := api.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, api: s, http: httptest.NewServer(s)}
	t.Cleanup(p.close)
	return p
}

func newServer(s *api.Server) *httptest.Server { return httptest.NewServer(s) }

func zipped(t *testing.T, text string) string {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	io.WriteString(w, text)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return z.String()
}

func (p *peer) close() {
	p.http.Close()
	if err := p.api.Close(); err != nil {
		p.t.Error(err)
	}
}

func (p *peer) do(method, path, body string, header ...string) (int, string, http.Header) {
	p.t.Helper()
	r, err := http.NewRequest(method, p.http.URL+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

// groupIDs finds the first token of each group of a batch, which the tests number them by.
func groupIDs(body string) string {
	var b struct {
		Batch []struct{ Tokens [][]int }
	}
	if json.Unmarshal([]byte(body), &b) != nil || b.Batch == nil {
		return body
	}
	list := []int{}
	for _, g := range b.Batch {
		list = append(list, g.Tokens[0][0])
	}
	return fmt.Sprint(list)
}

// scored is group number k of n sequences; env -1 sends none.
func scored(k, n, env int) string {
	row := fmt.Sprintf("[%d,7]", k)
	rows := strings.TrimSuffix(strings.Repeat(row+",", n), ",")
	scores := strings.TrimSuffix(strings.Repeat("1,", n), ",")
	id := ""
	if env >= 0 {
		id = fmt.Sprintf(`,"env_id":%d`, env)
	}
	return fmt.Sprintf(`{"tokens":[%s],"masks":[%s],"scores":[%s]%s}`, rows, rows, scores, id)
}

func trainer(batch int) string {
	return fmt.Sprintf(`{"wandb_group":"g","wandb_project":"p","batch_size":%d,"max_token_len":2048,"checkpoint_dir":"/c","save_checkpoint_interval":5,"starting_step":0,"num_steps":100}`,
		batch)
}

func env(name string, size int, more string) string {
	return fmt.Sprintf(`{"max_token_length":100,"desired_name":%q,"weight":1,"group_size":%d%s}`, name, size, more)
}

// step is a request and what its answer must hold: the whole body of a JSON answer, the
// numbers of a batch's groups, or a part of the text.
type step struct {
	method, path, body string
	status             int
	want               string
}

func post(path, body, want string) step { return step{"POST", path, body, 200, want} }
func get(path, want string) step        { return step{"GET", path, "", 200, want} }
func asks(id int, want string) step {
	return step{"GET", "/status-env", fmt.Sprintf(`{"env_id":%d}`, id), 200, want}
}

func groups(list ...[3]int) (s []step) {
	for _, g := range list {
		s = append(s, post("/scored_data", scored(g[0], g[1], g[2]), ""))
	}
	return s
}

func play(list ...[]step) (all []step) {
	for _, l := range list {
		all = append(all, l...)
	}
	return all
}

const (
	received = `{"status":"received"}`
	waiting  = `{"status":"wait for trainer to start"}`
	empty    = `{"batch":null}`
)

// TestBehaviour is the table of what Atropos' server was seen to do. Steps marked by the
// mode differ where that server stalls or crashes.
func TestBehaviour(t *testing.T) {
	begin := func(batch int) []step {
		return []step{post("/register", trainer(batch), `"uuid":`), get("/batch", empty)}
	}
	tests := []struct {
		name, mode string // mode: "" both, strict or own
		steps      []step
	}{
		{"a fresh server", "", []step{
			get("/", `{"message":"AtroposLib API"}`), get("/info", `{"batch_size":-1,"max_token_len":-1}`), get("/status", `{"current_step":0,"queue_size":0}`),
			get("/wandb_info", `{"group":null,"project":null}`),
			get("/batch", `{"status":"error","message":"Trainer not registered. Call /register first.","batch":[]}`),
			get("/latest_example",
				`{"tokens":[],"masks":[],"scores":[],"advantages":[],"ref_logprobs":[],"generation_params":[],"inference_logprobs":[],"messages":[],"images":[]}`),
			post("/register-env", env("e", 4, ""), waiting),
			post("/disconnect-env", `{"env_id":0}`, `{"status":"failure","error":"'State' object has no attribute 'envs'"}`),
			get("/reset_data", "Reset successful")}},
		{
			"newest first, and the step jumps",
			"",
			play(begin(4), groups([3]int{1, 2, -1}, [3]int{2, 2, -1}, [3]int{3, 2, -1}, [3]int{4, 2, -1}, [3]int{5, 2, -1}, [3]int{6, 2, -1}), []step{
				get("/status",
					`{"current_step":0,"queue_size":6}`), get("/batch", "[5 6]"), get("/status", `{"current_step":3,"queue_size":0}`), get("/batch", "[3 4]")},
				groups([3]int{
					7,
					2,
					-1,
				}, [3]int{8, 2, -1}), []step{get("/batch", "[1 2]"), get("/status", `{"current_step":3,"queue_size":2}`), get("/batch", "[7 8]"),
					get("/status", `{"current_step":4,"queue_size":0}`), get("/batch", empty)}),
		},
		{"the gate of registration", "", []step{post("/register", trainer(4), ""), post("/register-env", env("e", 4, ""), waiting), get("/batch", empty),
			post("/register-env", env("e", 4, ""),
				`{"checkpoint_dir":"/c","checkpoint_interval":5,"env_id":0,"num_steps":100,"starting_step":0,"status":"success","wandb_name":"e_0"}`),
			post("/register-env", env("e", 4, ""),
				`e_1`), post("/register-env", env("y", 4, ""), `y_0`), post("/disconnect-env", `{"env_id":0}`, `{"status":"success"}`),
			post("/register-env", env("e", 4, ""), `e_2`), post("/disconnect-env", `{"env_id":9}`, `{"status":"failure","error":"list index out of range"}`)}},
		{"a second registration",
			"strict",
			[]step{post("/register", trainer(2), ""), post("/register", trainer(4), `"uuid":`), get("/info", `{"batch_size":2,"max_token_len":2048}`)}},
		{"a second registration", "own", []step{post("/register", trainer(2), ""), {"POST", "/register", trainer(4), 409, "GET /reset_data first"},
			post("/register", trainer(2), `"uuid":`), get("/info", `{"batch_size":2,"max_token_len":2048}`),
			{"POST", "/register", strings.Replace(trainer(2), "2048", "4096", 1), 409, "max_token_len 2048 and this one wants 4096"},
			post("/register", strings.Replace(trainer(2), `"num_steps":100`, `"num_steps":200`, 1),
				`"uuid":`), get("/batch", empty), post("/register-env", env("e", 2, ""), `"num_steps":200`)}},
		{
			"an environment that is started again",
			"own",
			play(begin(4), []step{post("/register-env", env("e", 4, `,"instance":"a"`), "e_0"), post("/register-env", env("e", 4, `,"instance":"b"`), "e_1"),
				post("/register-env", env("y", 4, `,"instance":"a"`),
					"y_0"), post("/disconnect-env", `{"env_id":0}`, `"success"`), post("/register-env", env("e", 2, `,"instance":"a"`), `"env_id":0`),
				asks(0, `"env_weight":0.3333`), post("/register-env", env("e", 2, ""), "e_2")}),
		},
		{
			"an environment that is started again",
			"strict",
			play(begin(4), []step{post("/register-env", env("e", 4, `,"instance":"a"`), "e_0"), post("/register-env", env("e", 4, `,"instance":"a"`), "e_1")}),
		},
		{
			"odd sizes starve",
			"",
			play(begin(4), groups([3]int{1, 3, -1}, [3]int{2, 1, -1}, [3]int{3, 4, -1}), []step{get("/batch", "[3]"), get("/batch", empty)},
				groups([3]int{4, 1, -1}, [3]int{5, 1, -1}, [3]int{6, 1, -1}), []step{get("/batch", "[1 2]")}),
		},
		{
			"a batch that is not a multiple",
			"strict",
			play(begin(6), groups([3]int{1, 4, -1}, [3]int{2, 4, -1}, [3]int{3, 4, -1}, [3]int{4, 4, -1}), []step{get("/batch", empty)}),
		},
		{
			"a batch that is not a multiple",
			"own",
			play(begin(6), groups([3]int{1, 4, -1}, [3]int{2, 4, -1}, [3]int{3, 4, -1}, [3]int{4, 4, -1}),
				[]step{get("/batch", "not a multiple of the largest group size")}),
		},
		{
			"the size buffer",
			"",
			play(begin(4), []step{post("/register-env", env("e", 4, ""), "e_0"), post("/scored_data", scored(1, 3, 0), `{"status":"buffered","buffer_size":3}`),
				post("/scored_data", scored(2, 2, 0),
					`{"status":"buffered","buffer_size":5}`), post("/scored_data", scored(3, 1, 0), `{"status":"buffered","buffer_size":2}`),
				get("/status", `{"current_step":0,"queue_size":2}`), get("/batch", empty)}),
		},
		{
			"pairs",
			"",
			play(begin(8), []step{
				post("/register-env", env("e", 4, ""), "e_0"),
				post("/scored_data_list", "["+scored(1, 2, 0)+","+scored(2, 2, 0)+","+scored(3, 2, 0)+"]",
					`{"status":"received","groups_processed":3,"buffered":3,"last_buffer_size":2}`),
				post("/scored_data", scored(4, 2, 0),
					`{"status":"buffered","buffer_size":0}`),
				get("/batch", "[1 2 3 4]"),
			}),
		},
		{
			"minimum allocations",
			"",
			play(begin(8), []step{post("/register-env", env("a", 2, `,"min_batch_allocation":0.5`), "a_0"), post("/register-env", env("b", 4, ""), "b_0"),
				post("/register-env", env("c", 4, `,"min_batch_allocation":0.0`),
					"c_0")}, groups([3]int{1, 4, 1}, [3]int{2, 4, 1}, [3]int{3, 4, 1}), []step{get("/batch", empty),
				asks(0, `{"current_step":0,"queue_size":6,"unallocated_fraction":0.5,"self_queue_size":0,"max_group_size":4,"env_weight":0.3333333333333333}`)},
				groups([3]int{4, 2, 0}), []step{get("/batch", empty)}, groups([3]int{5, 2, 0}), []step{get("/batch", "[4 5 1]")}),
		},
		{"queue sizes", "", play(begin(16), []step{post("/register-env", env("a", 4, ""), "a_0"), post("/register-env", env("b", 8, ""), "b_0")},
			groups([3]int{
				1,
				4,
				0,
			}, [3]int{
				2,
				4,
				0,
			}, [3]int{
				3,
				4,
				0,
			}), []step{
				asks(0, `"queue_size":3,"unallocated_fraction":1,"self_queue_size":3`),
				asks(1, `"queue_size":1,"unallocated_fraction":1,"self_queue_size":0`),
			},
			groups([3]int{4, 8, 1}), []step{asks(0, `"queue_size":5,`), asks(1, `"queue_size":3,`)})},
		{
			"weights",
			"strict",
			play(begin(4), []step{post("/register-env", `{"max_token_length":100,"desired_name":"a","weight":0,"group_size":4}`, "a_0"),
				{"GET", "/status-env", `{"env_id":0}`, 500, "Internal Server Error"},
				post("/register-env", `{"max_token_length":100,"desired_name":"a","weight":3,"group_size":4}`,
					"a_1"), asks(0, `"env_weight":0.01`), asks(1, `"env_weight":1}`)}),
		},
		{
			"weights",
			"own",
			play(begin(4), []step{
				post("/register-env", `{"max_token_length":100,"desired_name":"a","weight":0,"group_size":4}`, "a_0"),
				asks(0, `"env_weight":0.01`),
				{"GET", "/status-env", `{"env_id":5}`, 404, "register-env"},
				{"GET", "/status-env?env_id=0", "", 200, `"env_weight":0.01`},
			}),
		},
		{
			"the group size grows",
			"",
			play([]step{post("/register", trainer(8),
				"")}, groups([3]int{1, 8, 0}), []step{get("/info", "8")}, []step{get("/batch", "[1]")}, groups([3]int{2, 8, 0}),
				[]step{
					post("/register-env", env("e", 4, ""), "e_0"),
					asks(0, `"queue_size":1,`),
					post("/scored_data", scored(3, 4, 0), "buffered"),
					post("/scored_data", scored(4, 8, 0), received),
				}),
		},
		{"data before a trainer",
			"strict",
			[]step{
				post("/scored_data", scored(1, 2, -1), received), post("/register", trainer(2), `"uuid":`),
				get("/info", `{"batch_size":-1,"max_token_len":-1}`),
				get("/batch",
					"Trainer not registered"), get("/reset_data",
					"Reset"), post("/register", trainer(2), ""), get("/info", `{"batch_size":2,"max_token_len":2048}`),
			}},
		{"data before a trainer",
			"own",
			[]step{
				post("/scored_data", scored(1, 2, -1), received),
				post("/register", trainer(2), `"uuid":`),
				get("/info", `{"batch_size":2,"max_token_len":2048}`),
				get("/batch", "[1]"),
			}},
		{
			"after a reset",
			"",
			play(begin(2), groups([3]int{
				1,
				2,
				-1,
			}), []step{
				get("/reset_data", "Reset successful"),
				get("/info", `{"batch_size":-1,"max_token_len":2048}`),
				get("/status", `{"current_step":0,"queue_size":0}`),
				get("/wandb_info", `{"group":null,"project":null}`),
				get("/latest_example", `"tokens":[[1,7],[1,7]]`),
			}),
		},
		{"a batch after a reset", "strict", play(begin(2), []step{get("/reset_data", "Reset"), {"GET", "/batch", "", 500, "Internal Server Error"}})},
		{"a batch after a reset", "own", play(begin(2), []step{get("/reset_data", "Reset"), get("/batch", "Trainer not registered")})},
		{
			"NaN poisons",
			"strict",
			play(begin(1), []step{post("/scored_data", `{"tokens":[[1]],"masks":[[1]],"scores":[NaN]}`, received),
				{"GET", "/latest_example", "", 500, ""},
				{"GET", "/batch", "", 500, ""},
				get("/status", `{"current_step":1,"queue_size":0}`), get("/batch", empty)}),
		},
		{"NaN", "own", play(begin(1), []step{{"POST", "/scored_data", `{"tokens":[[1]],"masks":[[1]],"scores":[NaN]}`, 422, "finite"}})},
		{"bodies that are not valid",
			"",
			[]step{{"POST", "/register", `{"batch_size":1}`, 422, `"missing"`},
				{"POST", "/register", ``, 422, `"missing"`},
				{"POST", "/scored_data", `{"tokens":`, 422, "json_invalid"},
				{"POST", "/scored_data", "{\"tokens\":\"\xff\"}", 400, `{"detail":"There was an error parsing the body"}`},
				{"POST", "/scored_data", `[]`, 422, "model_attributes_type"},
				{"POST", "/scored_data_list", `{}`, 422, "list_type"},
				{"POST", "/scored_data_list", "[" + scored(1, 1, -1) + `,{"masks":[]}]`, 422, `"loc":["body",1,"tokens"]`},
				{"POST", "/register-env", `{"max_token_length":"512","desired_name":null,"weight":1.0,"group_size":1}`, 422, "desired_name"},
				{
					"POST",
					"/scored_data",
					`{"tokens":[[1]],"masks":[[1]],"scores":[1],"messages":[[{"role":"user"}]]}`,
					422,
					"value_error",
				}, post("/scored_data_list", `[]`, `{"status":"received","groups_processed":0}`)}},
		{"a message that is a number",
			"strict",
			[]step{{"POST", "/scored_data", `{"tokens":[[1]],"masks":[[1]],"scores":[1],"messages":[[5]]}`, 500, "Internal Server Error"}}},
		{"paths and methods",
			"",
			[]step{{"GET", "/nothing", "", 404, `{"detail":"Not Found"}`},
				{"POST", "/batch", "", 405, `{"detail":"Method Not Allowed"}`},
				{"HEAD", "/info", "", 405, ""},
				{"GET", "/info/", "", 307, ""}}},
	}
	for _, tt := range tests {
		for _, mode := range []string{"strict", "own"} {
			if tt.mode != "" && tt.mode != mode {
				continue
			}
			t.Run(tt.name+" "+mode, func(t *testing.T) {
				p := serve(t, api.Options{Strict: mode == "strict"})
				for i, s := range tt.steps {
					status, body, h := p.do(s.method, s.path, s.body)
					ok := status == s.status
					switch {
					case strings.HasPrefix(s.want, "["):
						ok = ok && groupIDs(body) == s.want
					case strings.HasPrefix(s.want, "{"):
						ok = ok && sameJSON(body, s.want)
					default:
						ok = ok && strings.Contains(body, s.want)
					}
					if !ok {
						t.Fatalf("step %d, %s %s %s: %d %s, want %d %s", i, s.method, s.path, s.body, status, body, s.status, s.want)
					}
					if status == 200 && s.path != "/reset_data" && h.Get("Content-Type") != "application/json" {
						t.Errorf("%s answers as %s", s.path, h.Get("Content-Type"))
					}
				}
			})
		}
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

func TestUUID(t *testing.T) {
	p := serve(t, api.Options{})
	_, body, _ := p.do("POST", "/register", trainer(2))
	if !regexp.MustCompile(`^\{"uuid":[0-9]{30,39}\}$`).MatchString(body) {
		t.Error(body)
	}
}

func TestGzip(t *testing.T) {
	for _, strict := range []bool{true, false} {
		p := serve(t, api.Options{Strict: strict})
		p.do("POST", "/register", trainer(200))
		z := zipped(t, scored(1, 200, -1))
		if status, body, _ := p.do("POST", "/scored_data", z, "Content-Encoding", "x-gzip"); status != 200 {
			t.Fatal(status, body)
		}
		status, body, h := p.do("GET", "/batch", "", "Accept-Encoding", "gzip;q=0")
		if h.Get("Content-Encoding") != "gzip" || h.Get("Vary") == "" {
			t.Fatal(status, h)
		}
		r, err := gzip.NewReader(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := io.ReadAll(r); err != nil || groupIDs(string(plain)) != "[1]" {
			t.Errorf("%s, %v", plain, err)
		}
		for name, bad := range map[string]string{"no gzip": "hello", "cut off": z[:len(z)/2], "wrong sum": z[:len(z)-8] + "12345678"} {
			want := 400
			if strict && name == "cut off" {
				want = 500
			}
			if status, body, _ := p.do("POST", "/scored_data", bad, "Content-Encoding", "gzip"); status != want {
				t.Errorf("%s, strict %v: %d %s", name, strict, status, body)
			}
		}
	}
}

// TestPagesChangeNothing asks for everything that a GET can ask for: what changes the state
// is refused to a page, the server's own included.
func TestPagesChangeNothing(t *testing.T) {
	p := serve(t, api.Options{})
	p.do("POST", "/register", trainer(4)) // one group fills no batch, whose delivery would end after its answer
	p.do("GET", "/batch", "")
	p.do("POST", "/register-env", env("e", 2, ""))
	p.do("POST", "/scored_data", scored(1, 2, 0))
	changing := 0
	for _, path := range api.Gets(p.api) {
		for _, ask := range []string{path, path + "?env_id=0", path + "?holder=page&ack=0"} {
			for _, header := range [][2]string{{"Sec-Fetch-Site", "same-origin"},
				{"Sec-Fetch-Site", "cross-site"},
				{"Origin", "http://127.0.0.1"},
				{"Referer", "http://127.0.0.1/"},
				{"User-Agent", "Mozilla/5.0"}} {
				before := api.Sight(p.api)
				p.do("GET", ask, "", header[0], header[1])
				if api.Sight(p.api) != before {
					t.Errorf("GET %s with %s: %s changes the state", ask, header[0], header[1])
				}
			}
		}
		before := api.Sight(p.api)
		p.do("GET", path+"?env_id=0", "", "Sec-Fetch-Site", "none", "User-Agent", "Mozilla/5.0")
		if api.Sight(p.api) != before {
			changing++
		}
	}
	if changing != 3 {
		t.Errorf("%d paths of GET change the state, want /batch, /reset_data and /status-env", changing)
	}
	if _, _, h := p.do("GET", "/info", "", "Origin", "http://a"); h.Get("Access-Control-Allow-Origin") != "" {
		t.Error(h)
	}
}

// TestRedirectKeepsToken: a path with a slash at its end leads to the one without, behind
// the token where it was asked for so.
func TestRedirectKeepsToken(t *testing.T) {
	p := serve(t, api.Options{})
	g, err := guard.New(guard.Options{Token: "sesame"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/t/sesame/status/": "/t/sesame/status", "/t/sesame/batch/?holder=a%26b": "/t/sesame/batch?holder=a%26b"} {
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "localhost"
		w := httptest.NewRecorder()
		if g.Wrap(p.api).ServeHTTP(w, r); w.Code != 307 || w.Header().Get("Location") != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Header().Get("Location"))
		}
	}
	if status, _, h := p.do("GET", "/status/?a=1", ""); status != 307 || h.Get("Location") != "/status?a=1" {
		t.Error(status, h)
	}
}
