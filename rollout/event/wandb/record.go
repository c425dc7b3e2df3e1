package wandb

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"
)

// The records are messages of W&B's wandb_internal.proto, written by hand: the numbers
// are those of its fields, as its Python package's descriptors give them (0.31).
const (
	inHistory = 2
	inSummary = 3
	inRun     = 17
	inExit    = 18
	inHeader  = 21
)

// message is a protobuf message that is being written.
type message []byte

func (m message) bytes(field int, data []byte) message {
	m = binary.AppendUvarint(m, uint64(field)<<3|2)
	m = binary.AppendUvarint(m, uint64(len(data)))
	return append(m, data...)
}

// text leaves out what is empty, as proto3 does.
func (m message) text(field int, s string) message {
	if s == "" {
		return m
	}
	return m.bytes(field, []byte(s))
}

func (m message) number(field int, n int64) message {
	if n == 0 {
		return m
	}
	m = binary.AppendUvarint(m, uint64(field)<<3)
	return binary.AppendUvarint(m, uint64(n)) // negative ones take ten bytes, as the format has it
}

// item is a key with its value as JSON: ConfigItem, HistoryItem, SummaryItem. A key with
// slashes is one key, not a path.
func item(key string, value any) message {
	raw, err := json.Marshal(value)
	if err != nil {
		raw, _ = json.Marshal(err.Error()) // of the configuration: nothing else comes here that JSON has no word for
	}
	return message{}.text(1, key).bytes(16, raw)
}

func headerRecord(producer string) message {
	version := message{}.text(1, "hermes "+producer).text(2, "0.0.1") // the oldest reader
	return message{}.bytes(inHeader, message{}.bytes(1, version))
}

func runRecord(i Info) message {
	var config message
	for _, key := range slices.Sorted(maps.Keys(i.Config)) {
		config = config.bytes(1, item(key, i.Config[key]))
	}
	start := message{}.number(1, i.Started.Unix()).number(2, int64(i.Started.Nanosecond()))
	run := message{}.text(1, i.ID).text(2, i.Entity).text(3, i.Project).bytes(4, config).text(6, i.Group).text(7, i.JobType).text(8, i.Name)
	for _, tag := range i.Tags {
		run = run.text(10, tag)
	}
	return message{}.bytes(inRun, run.text(13, i.Host).bytes(17, start))
}

// line is a row as W&B keeps it, with what its charts need beside the figures.
func (w *row) line(started time.Time) map[string]any {
	m := map[string]any{"_step": w.step, "_timestamp": seconds(w.at.UnixMicro()), "_runtime": seconds(w.at.Sub(started).Microseconds())}
	for k, v := range w.values {
		m[k] = v
	}
	return m
}

// seconds makes them of microseconds.
func seconds(micro int64) float64 { return math.Max(0, float64(micro)/1e6) }

func historyRecord(w *row, started time.Time) message {
	line := w.line(started)
	var h message
	for _, key := range slices.Sorted(maps.Keys(line)) {
		h = h.bytes(1, item(key, line[key]))
	}
	return message{}.bytes(inHistory, h.bytes(2, message{}.number(1, w.step)))
}

func summaryRecord(values map[string]float64) message {
	var s message
	for _, key := range slices.Sorted(maps.Keys(values)) {
		s = s.bytes(1, item(key, values[key]))
	}
	return message{}.bytes(inSummary, s)
}

func exitRecord(code int, runtime time.Duration) message {
	return message{}.bytes(inExit, message{}.number(1, int64(code)).number(2, max(0, int64(runtime.Seconds()))))
}
