package wire

import "strings"

// EncodeValue makes a CloudEvents attribute fit for a header of HTTP or NATS, as
// CloudEvents' HTTP binding (3.1.3.2) says: space, double quote, percent and all
// outside of printable ASCII are percent-encoded, byte by byte of the UTF-8.
// Most values need nothing and are returned as they are.
func EncodeValue(s string) string {
	n := 0
	for i := range len(s) {
		if unfit(s[i]) {
			n++
		}
	}
	if n == 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 2*n)
	for i := range len(s) {
		if unfit(s[i]) {
			Percent(&b, s[i])
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// DecodeValue undoes EncodeValue. What is not a percent-encoding is kept.
func DecodeValue(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, lo := unhex(s[i+1]), unhex(s[i+2])
			if hi >= 0 && lo >= 0 {
				b.WriteByte(byte(hi<<4 | lo))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Percent writes one percent-encoded byte.
func Percent(b *strings.Builder, c byte) {
	const hex = "0123456789ABCDEF"
	b.WriteByte('%')
	b.WriteByte(hex[c>>4])
	b.WriteByte(hex[c&15])
}

func unfit(c byte) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '%' }

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
