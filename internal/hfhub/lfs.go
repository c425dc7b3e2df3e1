package hfhub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
)

const lfsForm = "application/vnd.git-lfs+json"

// object is what the store wants done with one file.
type object struct {
	OID   string `json:"oid"`
	Size  int64  `json:"size"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Actions struct {
		Upload *action `json:"upload"`
		Verify *action `json:"verify"`
	} `json:"actions"`
}

type action struct {
	Href   string         `json:"href"`
	Header map[string]any `json:"header"`
}

// store uploads the large files that the store lacks.
func (w *pusher) store(ctx context.Context, files []*file) error {
	byOID := map[string]*file{}
	var ask []map[string]any
	for _, f := range files {
		if f.lfs && !f.ignore && byOID[f.sum] == nil {
			byOID[f.sum] = f
			ask = append(ask, map[string]any{"oid": f.sum, "size": f.size})
		}
	}
	for batch := range slices.Chunk(ask, 256) {
		var got struct {
			Objects []object `json:"objects"`
		}
		err := w.post(ctx, w.r.o.Endpoint+w.r.page+".git/info/lfs/objects/batch", lfsForm, map[string]any{"operation": "upload",
			"transfers": []string{"basic", "multipart"}, "objects": batch, "hash_algo": "sha256", "ref": map[string]string{"name": w.o.Revision}}, &got, maxTries)
		if err != nil {
			return fmt.Errorf("large files: %w", err)
		}
		answered := map[string]bool{}
		for _, o := range got.Objects {
			f := byOID[o.OID]
			if f == nil || o.Size != f.size {
				return fmt.Errorf("large files: the hub speaks of an object %q of %d bytes", o.OID, o.Size)
			}
			if o.Error != nil {
				return fmt.Errorf("%s: the hub refuses it: %s (%d)", f.Path, o.Error.Message, o.Error.Code)
			}
			if err := w.upload(ctx, f, o); err != nil {
				return fmt.Errorf("%s: %w", f.Path, err)
			}
			answered[o.OID] = true
		}
		if len(answered) != len(batch) {
			return fmt.Errorf("large files: the hub answers for %d of %d", len(answered), len(batch))
		}
	}
	return nil
}

func (w *pusher) upload(ctx context.Context, f *file, o object) error {
	if o.Actions.Upload == nil {
		return nil // the store has it
	}
	if w.r.o.Log != nil {
		w.r.o.Log(fmt.Sprintf("sending %s/%s (%d bytes)", w.r.name, f.Path, f.size))
	}
	chunk, multi := number(o.Actions.Upload.Header["chunk_size"])
	var err error
	if multi {
		err = w.parts(ctx, f, o.Actions.Upload, chunk)
	} else {
		header := http.Header{}
		for k, v := range o.Actions.Upload.Header {
			if s, ok := v.(string); ok {
				header.Set(k, s)
			}
		}
		_, err = w.put(ctx, f, o.Actions.Upload.Href, header, 0, f.size)
	}
	if err != nil || o.Actions.Verify == nil {
		return err
	}
	return w.post(ctx, o.Actions.Verify.Href, "application/json", map[string]any{"oid": f.sum, "size": f.size}, nil, maxTries)
}

func number(v any) (int64, bool) {
	switch v := v.(type) {
	case float64:
		return int64(v), v >= 1
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil && n >= 1
	}
	return 0, false
}

// parts sends a file in pieces of chunk bytes, each to its own address, and says in the
// end what the store answered for each.
func (w *pusher) parts(ctx context.Context, f *file, a *action, chunk int64) error {
	n := int((f.size + chunk - 1) / chunk)
	addresses := map[int]string{}
	for k, v := range a.Header {
		if i, err := strconv.Atoi(k); err == nil {
			addresses[i], _ = v.(string)
		}
	}
	if len(addresses) != n {
		return fmt.Errorf("the hub gives %d addresses for %d pieces", len(addresses), n)
	}
	var list []map[string]any
	for i := 1; i <= n; i++ {
		from := int64(i-1) * chunk
		tag, err := w.put(ctx, f, addresses[i], nil, from, min(chunk, f.size-from))
		if err != nil {
			return fmt.Errorf("piece %d of %d: %w", i, n, err)
		}
		if tag == "" {
			return fmt.Errorf("piece %d of %d: the store gives no ETag", i, n)
		}
		list = append(list, map[string]any{"partNumber": i, "etag": tag})
	}
	return w.posted(ctx, a.Href, lfsForm, false, map[string]any{"oid": f.sum, "parts": list}, nil, maxTries) // a signed address
}

// put sends size bytes of a file from an offset on and returns the answer's ETag.
func (w *pusher) put(ctx context.Context, f *file, address string, header http.Header, from, size int64) (tag string, err error) {
	in, err := os.Open(f.File)
	if err != nil {
		return "", err
	}
	defer in.Close()
	resp, err := w.send(ctx, http.MethodPut, address, header, false, func() (io.Reader, int64, error) {
		// Not closed by the transport: it is read again at the next try.
		return io.NopCloser(io.NewSectionReader(in, from, size)), size, nil
	}, maxTries)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxJSON))
	return resp.Header.Get("ETag"), errors.Join(err, resp.Body.Close())
}
