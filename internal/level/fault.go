package level

import (
	"fmt"
	"strings"
)

// Fault is a fault of libmlx5, by the releases of rdma-core that have it.
type Fault struct {
	Since int    // the first series with it
	Fixed string // the first release without it of each series that has one, as in "40.1 41.0"
}

// The faults that depend on the release. docs/libmlx5.md describes each, and those of all releases.
var (
	BindMW = Fault{Fixed: "20.12 21.11 22.12 23.10 24.10 25.11 26.9 27.8 28.8 29.7 30.7 31.8 32.7 33.7 34.6 35.5 " +
		"36.5 37.4 38.3 39.2 40.1 41.0"}
	EthernetSL = Fault{Fixed: "15.7 16.7 17.4 18.3 19.2 20.2 21.1 22.0"}
	HighSL     = Fault{Fixed: "15.8 16.8 17.5 18.4 19.3 20.3 21.2 22.2 23.1 24.0"}
	WQESum     = Fault{Fixed: "15.13 16.14 17.10 18.9 19.8 20.8 21.7 22.8 23.6 24.5 25.6 26.4 27.3 28.3 29.2 30.2 " +
		"31.2 32.1 33.0"}
	LongBlocks = Fault{Since: 24, Fixed: "24.4 25.5 26.3 27.2 28.2 29.1 30.1 31.0"}
	RawOpcode  = Fault{Since: 36, Fixed: "36.4 37.3 38.2 39.0"}
	SignedKeys = Fault{Since: 36, Fixed: "37.5 38.4 39.3 40.2 41.2 42.2 43.1 44.0"}
	DevXState  = Fault{Since: 40, Fixed: "40.1"}
	WideResult = Fault{Fixed: "40.13 41.13 42.13 43.12 44.12 45.11 46.10 47.9 48.8 49.8 50.7 51.7 52.6 53.6 54.5 " +
		"55.4 56.4 57.3 58.2 59.2 60.2 61.1 62.1 63.1 64.0"}
)

// In reports whether a libmlx5 has the fault. Series that are newer than those of Fixed do not. version is that of its
// file, as in "44.0"; if it is unknown, the library counts as the first release of the newest series with a struct
// verbs_context of size bytes.
func (f Fault) In(version string, size int, goarch string) bool {
	var series, point int
	if !scan(version, &series, &point) {
		series, point = 0, 0
		for _, l := range levels {
			if sizeOn(goarch, l.size) == size {
				_, _ = fmt.Sscanf(l.span[strings.LastIndex(l.span, "v")+1:], "%d", &series) // 0 for MLNX_OFED's
			}
		}
		if series == 0 {
			return false
		}
	}
	last := 0
	for s := range strings.FieldsSeq(f.Fixed) {
		var fixed int
		if scan(s, &last, &fixed); last == series {
			return series >= f.Since && point < fixed
		}
	}
	return series >= f.Since && series < last
}

// scan reads a release. A version may have more numbers.
func scan(version string, series, point *int) bool {
	n, _ := fmt.Sscanf(strings.ReplaceAll(version, ".", " "), "%d %d", series, point)
	return n == 2
}
