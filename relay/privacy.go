package relay

import (
	"encoding/binary"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/postrider/postrider/wire"
)

// # What an error may say
//
// last_error, causes, logs and the status quote what brokers answer, and servers
// quote what they were sent: a validating proxy the body, a gateway a header, a
// broker the address that was made from the key. So the text of each failure
// passes through here, in the goroutine of the call, before anything else of the
// relay sees it: values of the event's own headers and of its route's, and what
// its payload and the text have in common, are masked; the key is hashed unless
// keys may be shown. Class and hint of the error stay.
//
// It is a second fence. A broker must not quote an event in the first place;
// what a server says of the event of another call cannot be recognised here.

// masked stands in an error's text for what was taken out of it.
const masked = "***"

const (
	// commonBytes is the shortest piece of a payload that is looked for in a
	// text. Shorter ones are in any text by chance.
	commonBytes = 12
	// wordBytes is the length below which a value is masked only where it stands
	// as a word of its own: a key "1" must not garble every number.
	wordBytes = 8
)

// withheld is an error whose text has lost what it quoted of an event.
type withheld struct {
	err  error
	text string
}

func (w *withheld) Error() string { return w.text }
func (w *withheld) Unwrap() error { return w.err }

// withhold returns err, or an error of the same kind that does not quote row.
func (p *pump) withhold(err error, rt *route, row *Row) error {
	before := err.Error()
	if len(before) > 4*maxErrorBytes { // of more than that nothing is kept
		before = before[:4*maxErrorBytes]
	}
	text := maskPayload(before, row.Payload)
	for _, headers := range []map[string]string{row.Headers, rt.Headers} {
		for _, value := range headers {
			text = replaceValue(text, value, masked, rt.escaper)
		}
	}
	if key := row.Key.Key; !p.r.cfg.PlainKeys {
		text = replaceValue(text, key, p.safeKey(key), rt.escaper)
	}
	if text == before {
		return err
	}
	return &withheld{err, text}
}

// replaceValue replaces a value in the spellings in which it may come back.
func replaceValue(text, value, with string, esc wire.Escaper) string {
	if value == "" || text == "" {
		return text
	}
	quoted := strconv.Quote(value)
	inJSON, _ := json.Marshal(value) // a string always encodes
	spellings := []string{
		value, quoted[1 : len(quoted)-1], string(inJSON[1 : len(inJSON)-1]),
		url.QueryEscape(value), url.PathEscape(value), wire.EncodeValue(value),
	}
	if esc != nil {
		spellings = append(spellings, esc.EscapeToken(value))
	}
	for i, spelling := range spellings {
		if i == 0 || spelling != value {
			text = replaceWord(text, spelling, with)
		}
	}
	return text
}

// replaceWord replaces a long word everywhere, a short one only between
// characters that are no part of a word.
func replaceWord(text, word, with string) string {
	if !strings.Contains(text, word) {
		return text
	}
	var out strings.Builder
	for {
		at := strings.Index(text, word)
		if at < 0 {
			out.WriteString(text)
			return out.String()
		}
		end := at + len(word)
		if len(word) < wordBytes && (at > 0 && inWord(text[at-1]) || end < len(text) && inWord(text[end])) {
			out.WriteString(text[:at+1])
			text = text[at+1:]
			continue
		}
		out.WriteString(text[:at])
		out.WriteString(with)
		text = text[end:]
	}
}

func inWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// maskPayload masks every piece of the payload in the text, as it is and as Go
// and JSON quote it. A payload shorter than a piece is looked for as a whole.
func maskPayload(text string, payload []byte) string {
	if len(payload) < commonBytes {
		return replaceValue(text, string(payload), masked, nil)
	}
	common := make([]bool, len(text))
	markCommon(text, payload, common)
	if strings.Contains(text, `\`) {
		markCommon(text, []byte(strconv.Quote(string(payload))), common)
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		j := i
		for j < len(text) && common[j] == common[i] {
			j++
		}
		if common[i] {
			out.WriteString(masked)
		} else {
			out.WriteString(text[i:j])
		}
		i = j
	}
	return out.String()
}

// markCommon marks what stands in the text and in the payload for commonBytes or
// more. The payload may be a megabyte and is read once: a filter by four bytes
// sorts out nearly every place of it.
func markCommon(text string, payload []byte, common []bool) {
	var filter [1 << 12]bool
	slot := func(four uint32) uint32 { return four * 2654435761 >> 20 }
	places := map[string][]int{}
	for i := 0; i+commonBytes <= len(text); i++ {
		piece := text[i : i+commonBytes]
		places[piece] = append(places[piece], i)
		filter[slot(binary.LittleEndian.Uint32([]byte(piece[:4])))] = true
	}
	if len(places) == 0 {
		return
	}
	for i := 0; i+commonBytes <= len(payload); i++ {
		if !filter[slot(binary.LittleEndian.Uint32(payload[i:]))] {
			continue
		}
		for _, at := range places[string(payload[i:i+commonBytes])] {
			for j := range commonBytes {
				common[at+j] = true
			}
		}
	}
}
