package relay

import (
	"errors"
	"strings"
)

// route is a Route made ready for matching.
type route struct {
	Route
	pieces []string // Topic cut at its asterisks
}

func compileRoute(r Route) (*route, error) {
	if r.Topic == "" {
		return nil, errors.New("topic: empty pattern")
	}
	return &route{Route: r, pieces: strings.Split(r.Topic, "*")}, nil
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
