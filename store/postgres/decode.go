package postgres

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/postrider/postrider/relay"
)

// decoder makes rows out of binary results.
//
// It allocates little per row: topic, type and content type repeat, so one
// string serves a whole batch, and small payloads share chunks. A chunk is
// small, because one event that waits for hours keeps its whole chunk alive and
// the relay counts only the event.
type decoder struct {
	strings map[string]string
	chunk   []byte
}

const (
	chunkSize = 8 << 10
	chunkMax  = 2 << 10 // larger payloads are allocated by themselves
)

var errResult = errors.New("result not as expected")

// row decodes the columns of rowColumns.
func (d *decoder) row(v [][]byte, r *relay.Row) error {
	if len(v) < 16 || len(v[0]) != 8 || len(v[1]) != 16 || len(v[2]) != 4 {
		return fmt.Errorf("event row: %w", errResult)
	}
	r.ID = relay.IntID(int64(binary.BigEndian.Uint64(v[0])))
	copy(r.EventID[:], v[1])
	r.Generation = int(int32(binary.BigEndian.Uint32(v[2])))
	r.Topic = d.intern(v[3])
	r.Key.Key = string(v[4])
	r.Type = d.intern(v[5])
	if len(v[6]) == 4 {
		r.SchemaVersion = int(int32(binary.BigEndian.Uint32(v[6])))
	}
	if len(v[7]) == 8 {
		r.SubjectVersion = int64(binary.BigEndian.Uint64(v[7]))
	}
	r.Payload = d.bytes(v[8])
	r.ContentType = d.intern(v[9])
	if v[10] != nil {
		r.Headers = headers(v[10])
	}
	r.Created = timestamp(v[11])
	r.Queued = timestamp(v[12])
	r.Available = timestamp(v[13])
	if len(v[14]) == 4 {
		r.Attempts = int(int32(binary.BigEndian.Uint32(v[14])))
	}
	r.LastError = string(v[15])
	return nil
}

// intern returns b as a string, the same one for the same bytes.
func (d *decoder) intern(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := d.strings[string(b)]; ok {
		return s
	}
	if d.strings == nil {
		d.strings = make(map[string]string)
	}
	s := string(b)
	if len(d.strings) < 1000 { // types made of ids must not fill memory
		d.strings[s] = s
	}
	return s
}

// bytes copies b, which is pgx's buffer. nil stays nil: it is a tombstone.
func (d *decoder) bytes(b []byte) []byte {
	if b == nil {
		return nil
	}
	if len(b) == 0 || len(b) > chunkMax {
		return append([]byte{}, b...) // an empty payload is not nil
	}
	if len(b) > cap(d.chunk)-len(d.chunk) {
		d.chunk = make([]byte, 0, chunkSize)
	}
	at := len(d.chunk)
	d.chunk = append(d.chunk, b...)
	return d.chunk[at:len(d.chunk):len(d.chunk)]
}

// headers decodes a jsonb object in binary: a version byte, then JSON. A value
// that is no string, which any SQL client may write, is taken as its JSON text,
// and null as the empty string: one odd row must not stop the batch.
func headers(b []byte) map[string]string {
	if len(b) < 1 {
		return nil
	}
	var plain map[string]string
	if json.Unmarshal(b[1:], &plain) == nil {
		return plain
	}
	var mixed map[string]json.RawMessage
	if json.Unmarshal(b[1:], &mixed) != nil {
		return nil
	}
	out := make(map[string]string, len(mixed))
	for name, value := range mixed {
		var s string
		if json.Unmarshal(value, &s) != nil {
			s = string(value)
		}
		out[name] = s
	}
	return out
}

// timestamp decodes microseconds since 2000. infinity and -infinity become the
// ends of what a time.Time can be compared with.
func timestamp(b []byte) time.Time {
	if len(b) != 8 {
		return time.Time{}
	}
	const epoch = 946684800
	us := int64(binary.BigEndian.Uint64(b))
	switch us {
	case math.MaxInt64:
		return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	case math.MinInt64:
		return time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)
	}
	seconds, rest := us/1e6, us%1e6
	return time.Unix(epoch+seconds, rest*1000).UTC()
}

func int8Value(b []byte) int64 {
	if len(b) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func int4Value(b []byte) int32 {
	if len(b) != 4 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

func boolValue(b []byte) bool { return len(b) == 1 && b[0] != 0 }
