package relay

import (
	"errors"
	"maps"
	"strings"

	"github.com/postrider/postrider/wire"
)

// route is a Route made ready: matched by topic, addressed by its template,
// encoded by its format.
type route struct {
	Route
	pieces  []string // Topic cut at its asterisks
	address *wire.Template
	encoder *wire.Encoder
	escaper wire.Escaper
}

func compileRoute(r Route) (*route, error) {
	if r.Topic == "" {
		return nil, errors.New("topic: empty pattern")
	}
	if r.Destination == "" {
		r.Destination = wire.DefaultDestination(r.Format)
	}
	encoder, err := wire.New(r.Format, r.Source)
	if err != nil {
		return nil, err
	}
	address, err := wire.ParseTemplate(r.Destination)
	if err != nil {
		return nil, err
	}
	return &route{Route: r, pieces: strings.Split(r.Topic, "*"), address: address, encoder: encoder}, nil
}

// matches reports whether the route is for events of this topic.
func (r *route) matches(database, topic string) bool {
	if r.Database != "" && r.Database != database {
		return false
	}
	return matchPieces(r.pieces, topic)
}

// matchPieces matches text against a pattern cut at its asterisks: the first
// piece must begin it, the last must end it, and each between must follow in
// order. Taking the earliest place for each is enough, since an asterisk takes
// any text.
func matchPieces(pieces []string, text string) bool {
	if len(pieces) == 1 {
		return text == pieces[0]
	}
	rest, ok := strings.CutPrefix(text, pieces[0])
	if !ok {
		return false
	}
	last := len(pieces) - 1
	for _, piece := range pieces[1:last] {
		_, after, found := strings.Cut(rest, piece)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, pieces[last])
}

// source is a row as package wire reads it.
func (r *route) source(database string, row *Row) wire.Event {
	e := wire.Event{
		Identity: row.identity(), Database: database,
		Topic: row.Topic, Key: row.Key.Key, Type: row.Type,
		ContentType: row.ContentType, SchemaVersion: row.SchemaVersion, Generation: row.Generation,
		Payload: row.Payload, Headers: row.Headers, Created: row.Created,
	}
	if len(r.Headers) > 0 {
		e.Headers = maps.Clone(r.Headers)
		maps.Copy(e.Headers, row.Headers)
	}
	return e
}

// event makes what a broker is given of a row.
func (r *route) event(database string, row *Row) (Event, error) {
	src := r.source(database, row)
	destination, err := r.address.Expand(&src, r.escaper)
	if err != nil {
		return Event{}, err
	}
	m, err := r.encoder.Encode(&src)
	if err != nil {
		return Event{}, err
	}
	e := Event{
		Identity: src.Identity, DedupID: row.dedupID(src.Identity), Database: database,
		Topic: row.Topic, Key: row.Key.Key, Type: row.Type, Destination: destination,
		ContentType: m.ContentType, Generation: row.Generation,
		Payload: m.Payload, Headers: m.Headers, Created: row.Created, Due: row.Queued,
	}
	return e, nil
}
