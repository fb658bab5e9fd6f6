package sqlite

import (
	"cmp"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"strconv"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// scanRow reads the columns of the constant row, and those behind it.
func scanRow(rows *sql.Rows, behind ...any) (relay.Row, error) {
	var (
		r                          relay.Row
		id                         int64
		event                      string
		tombstone                  bool
		headers                    sql.Null[[]byte]
		created, queued, available int64
	)
	err := rows.Scan(append([]any{
		&id, &event, &r.Generation, &r.Topic, &r.Key.Key, &r.Type, &r.SchemaVersion, &r.SubjectVersion,
		&tombstone, &r.Payload, &r.ContentType, &headers, &created, &queued, &available, &r.Attempts, &r.LastError,
	}, behind...)...)
	if err != nil {
		return relay.Row{}, err
	}
	r.ID = relay.IntID(id)
	var isUUID bool
	if r.EventID, isUUID = parseID(event); !isUUID {
		r.Identity = event
	}
	if r.Payload == nil && !tombstone {
		r.Payload = []byte{} // the driver makes no difference between empty and NULL
	}
	r.Headers = parseHeaders(headers.V)
	r.Created, r.Queued = fromMillis(created), fromMillis(queued)
	if available != 0 {
		r.Available = fromMillis(available)
	}
	return r, nil
}

// parseID reads an event id. The table's CHECK sees to it that it is a UUID, but
// a CHECK can be switched off, and one bad row must not stop the whole outbox:
// it stands for itself on the wire, and for settling is hashed to an id.
func parseID(text string) (id outbox.ID, isUUID bool) {
	if id, err := outbox.ParseID(text); err == nil {
		return id, true
	}
	sum := sha256.Sum256([]byte(text))
	return outbox.ID(sum[:len(id)]), false
}

// parseHeaders reads a JSON object of texts. Another kind of value keeps its
// JSON form. The table's CHECK has seen to it that it is an object.
func parseHeaders(text []byte) map[string]string {
	if len(text) == 0 {
		return nil
	}
	var raw map[string]json.RawMessage
	if json.Unmarshal(text, &raw) != nil || len(raw) == 0 {
		return nil
	}
	headers := make(map[string]string, len(raw))
	for name, value := range raw {
		var s string
		if value[0] != '"' || json.Unmarshal(value, &s) != nil {
			s = string(value)
		}
		headers[name] = s
	}
	return headers
}

// size is what a row costs in memory, roughly.
func size(r relay.Row) int64 {
	n := 256 + len(r.Payload) + len(r.Key.Key) + len(r.Topic) + len(r.Type)
	for name, value := range r.Headers {
		n += len(name) + len(value) + 32
	}
	return int64(n)
}

func byTopic(a, b relay.Row) int { return cmp.Compare(a.Topic, b.Topic) }

// intList is a JSON array of ids, for json_each.
func intList(ids []int64) string {
	b := make([]byte, 0, 12*len(ids)+2)
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, id, 10)
	}
	return string(append(b, ']'))
}
