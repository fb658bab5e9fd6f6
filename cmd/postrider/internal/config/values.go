package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time as the file spells it: 500ms, 10s, 24h, 7d.
type Duration time.Duration

// ParseDuration reads what Go's time.ParseDuration reads, and whole days as
// "7d": a retention of a week should not have to be written as 168h. It refuses
// negative ones.
func ParseDuration(s string) (Duration, error) {
	wrong := fmt.Errorf("%q is no duration (write 500ms, 10s, 24h or 7d)", s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, wrong
		}
		return Duration(time.Duration(n) * 24 * time.Hour), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, wrong
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	return Duration(d), nil
}

// String spells the duration so that ParseDuration reads the same again:
// without the zero units that Go's own spelling ends in.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Size is a number of bytes as the file spells it: 65536, 512KiB, 64MiB, 2GB.
type Size int64

// units, the largest first, so that String finds the shortest spelling and
// "MiB" is not read as "M" with a tail.
var units = [...]struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"kB", 1e3},
	{"B", 1},
}

// ParseSize reads a whole number with an optional unit.
func ParseSize(s string) (Size, error) {
	number, factor := s, int64(1)
	for _, u := range units {
		if n, ok := strings.CutSuffix(s, u.name); ok {
			number, factor = strings.TrimSpace(n), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return 0, fmt.Errorf("%q is no size (write 65536, 512KiB or 64MiB)", s)
	}
	return Size(n * factor), nil
}

// String spells the size in the largest unit that divides it.
func (s Size) String() string {
	for _, u := range units {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return "0"
}
