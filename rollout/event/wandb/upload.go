package wandb

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// uploader sends rows to a server, in order, from one goroutine.
type uploader struct {
	server *Server
	o      Options
	info   Info

	entity, project string // as the server calls them
	offset          int    // lines of history that the server has

	rows    chan queued
	over    chan struct{} // closed: the run has ended
	done    chan struct{} // closed: the goroutine has
	ctx     context.Context
	stop    context.CancelFunc
	closing sync.Once

	mu   sync.Mutex
	err  error // why nothing is sent any more
	code int
}

// queued is a row with the summary as of it.
type queued struct {
	row     row
	summary map[string]float64
}

// mostAnswer bounds what is read of an answer.
const mostAnswer = 1 << 20

// mostLines bounds one request.
const mostLines = 500

// newUploader makes the run known to the server.
func newUploader(ctx context.Context, info Info, o Options) (*uploader, error) {
	u := &uploader{server: o.Online, o: o, info: info, rows: make(chan queued, o.Queue), over: make(chan struct{}), done: make(chan struct{})}
	u.ctx, u.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := u.upsert(ctx); err != nil {
		u.stop()
		return nil, err
	}
	return u, nil
}

const upsertBucket = `mutation UpsertBucket($name: String, $project: String, $entity: String, $groupName: String, $displayName: String, $config: JSONString, $host: String, $jobType: String, $tags: [String!]) {
  upsertBucket(input: {name: $name, modelName: $project, entityName: $entity, groupName: $groupName, displayName: $displayName, config: $config, host: $host, jobType: $jobType, tags: $tags}) {
    bucket { id name displayName historyLineCount project { id name entity { id name } } }
    inserted
  }
}`

// upsert creates the run, or finds it where it was begun earlier. It is tried once: the
// beginning of a run does not wait for W&B.
func (u *uploader) upsert(ctx context.Context) error {
	config := map[string]any{}
	for k, v := range u.info.Config {
		config[k] = map[string]any{"value": v}
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	vars := map[string]any{"name": u.info.ID, "project": u.info.Project, "config": string(raw), "tags": append([]string{}, u.info.Tags...)}
	for name, v := range map[string]string{"entity": u.info.Entity, "groupName": u.info.Group, "displayName": u.info.Name, "host": u.info.Host, "jobType": u.info.JobType} {
		if v != "" {
			vars[name] = v
		}
	}
	var out struct {
		Data struct {
			UpsertBucket *struct {
				Bucket struct {
					HistoryLineCount int `json:"historyLineCount"`
					Project          struct {
						Name   string `json:"name"`
						Entity struct {
							Name string `json:"name"`
						} `json:"entity"`
					} `json:"project"`
				} `json:"bucket"`
			} `json:"upsertBucket"`
		} `json:"data"`
		Errors []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	if _, err := u.post(ctx, "/graphql", map[string]any{"operationName": "UpsertBucket", "query": upsertBucket, "variables": vars}, &out); err != nil {
		return err
	}
	if out.Data.UpsertBucket == nil {
		if len(out.Errors) > 0 {
			return fmt.Errorf("W&B made no run: %.200s", out.Errors[0].Message)
		}
		return errors.New("W&B made no run: its answer names none")
	}
	b := out.Data.UpsertBucket.Bucket
	u.offset = b.HistoryLineCount
	u.entity, u.project = cmp.Or(b.Project.Entity.Name, u.info.Entity), cmp.Or(b.Project.Name, u.info.Project)
	if u.entity == "" {
		return errors.New("W&B does not say whose the run is: set WANDB_ENTITY")
	}
	return nil
}

func (u *uploader) page() string {
	return u.server.URL + "/" + url.PathEscape(u.entity) + "/" + url.PathEscape(u.project) + "/runs/" + url.PathEscape(u.info.ID)
}

func (u *uploader) start() { go u.work() }

// offer queues a row. A queue that is full ends the upload: a row that is missing in the
// middle could not be sent later.
func (u *uploader) offer(r row, summary map[string]float64) {
	select {
	case u.rows <- queued{r, summary}:
	default:
		u.fail(fmt.Errorf("the server is too slow: %d rows wait for it", u.o.Queue))
		u.stop()
	}
}

func (u *uploader) fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.err = cmp.Or(u.err, err)
}

func (u *uploader) failed() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

// finish sends the rest and the exit code, for as long as linger at most.
func (u *uploader) finish(code int, linger time.Duration) error {
	u.mu.Lock()
	u.code = code
	u.mu.Unlock()
	u.closing.Do(func() { close(u.over) })
	late := time.AfterFunc(linger, func() {
		u.fail(fmt.Errorf("the server has not taken everything within %v", linger))
		u.stop()
	})
	<-u.done
	late.Stop()
	u.stop()
	return u.failed()
}

func (u *uploader) work() {
	defer close(u.done)
	if err := u.send(); err != nil {
		u.fail(err)
		u.o.Log.Warn("nothing more is sent to W&B; the rows stay in the file", "err", u.failed())
		<-u.over // offer finds a full queue and gives up, too
	}
}

// send posts rows as they come, and a beat where none do.
func (u *uploader) send() error {
	beat := time.NewTimer(u.o.Beat)
	defer beat.Stop()
	for {
		var lines []queued
		over := false
		select {
		case q := <-u.rows:
			lines = append(lines, q)
		case <-beat.C:
		case <-u.over:
			over = true
		case <-u.ctx.Done():
			return u.ctx.Err()
		}
	more:
		for len(lines) < mostLines {
			select {
			case q := <-u.rows:
				lines = append(lines, q)
			default:
				break more
			}
		}
		body, err := u.body(lines, over && len(u.rows) == 0)
		if err == nil {
			err = u.repeat(body)
		}
		if err != nil {
			return err
		}
		u.offset += len(lines)
		if over && len(u.rows) == 0 {
			return nil
		}
		beat.Reset(u.o.Beat)
	}
}

// body is a request of the file stream: lines behind those that the server has, and the
// newest summary.
func (u *uploader) body(lines []queued, last bool) (map[string]any, error) {
	files := map[string]any{}
	var history []string
	for _, q := range lines {
		raw, err := json.Marshal(q.row.line(u.info.Started))
		if err != nil {
			return nil, err
		}
		history = append(history, string(raw))
	}
	if len(lines) > 0 {
		raw, err := json.Marshal(lines[len(lines)-1].summary)
		if err != nil {
			return nil, err
		}
		files["wandb-history.jsonl"] = map[string]any{"offset": u.offset, "content": history}
		files["wandb-summary.json"] = map[string]any{"offset": 0, "content": []string{string(raw)}}
	}
	body := map[string]any{}
	if len(files) > 0 {
		body["files"] = files
	}
	if last {
		u.mu.Lock()
		defer u.mu.Unlock()
		body["complete"], body["exitcode"] = true, u.code
	}
	return body, nil
}

// repeat posts to the file stream until it is taken. The offset makes a repetition safe.
func (u *uploader) repeat(body map[string]any) error {
	path := "/files/" + url.PathEscape(u.entity) + "/" + url.PathEscape(u.project) + "/" + url.PathEscape(u.info.ID) + "/file_stream"
	pause := u.o.Pause
	for try := 1; ; try++ {
		again, err := u.post(u.ctx, path, body, nil)
		if err == nil || !again || try == u.o.Tries {
			return err
		}
		u.o.Log.Debug("W&B is asked again", "err", err)
		timer := time.NewTimer(pause/2 + rand.N(pause/2+1))
		select {
		case <-timer.C:
		case <-u.ctx.Done():
			timer.Stop()
			return err
		}
		pause = min(2*pause, time.Minute)
	}
}

// post sends JSON and reads JSON. again tells that another try may help.
func (u *uploader) post(ctx context.Context, path string, body, into any) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, u.o.Timeout)
	defer cancel()
	raw, err := json.Marshal(body)
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.server.URL+path, bytes.NewReader(raw))
	if err != nil {
		return false, err
	}
	req.SetBasicAuth("api", u.server.Key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "hermes/"+u.info.Version)
	// No redirects: no other server gets the key.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return true, fmt.Errorf("ask W&B: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return false, fmt.Errorf("%w: %s", ErrRefused, resp.Status)
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500:
		return true, fmt.Errorf("W&B answers %s", resp.Status)
	case code < 200 || code > 299:
		return false, fmt.Errorf("W&B answers %s: %.200q", resp.Status, answer)
	case err != nil:
		return true, fmt.Errorf("read the answer of W&B: %w", err)
	}
	if into == nil {
		return false, nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return false, fmt.Errorf("the answer of W&B is no JSON: %w", err)
	}
	return false, nil
}
