package measure

import (
	"slices"
	"testing"
)

func TestLimits(t *testing.T) {
	bw := &Size{Bytes: 64, BW: &Bandwidth{BitsPerSecond: 9e9, MessagesPerSecond: 2e6}}
	lat := &Size{Bytes: 2, Lat: &Summary{Count: 200, P50: 1500, P99: 4000}}
	for _, tc := range []struct {
		name string
		l    Limits
		s    *Size
		want string // of the only miss; "": none
	}{
		{"no limits", Limits{}, bw, ""},
		{"bandwidth kept", Limits{MinBits: 9e9}, bw, ""},
		{"bandwidth", Limits{MinBits: 9.5e9}, bw, "64 bytes: bandwidth is 9 Gb/s, the limit is 9.5"},
		{"rate", Limits{MinRate: 3e6}, bw, "64 bytes: message rate is 2 million per second, the limit is 3"},
		{"not known", Limits{MinBits: 1e9}, &Size{BW: &Bandwidth{}}, "0 bytes: bandwidth is 0 Gb/s, the limit is 1"},
		{"latency kept", Limits{MaxP50Ns: 1500, MaxP99Ns: 4000}, lat, ""},
		{"median", Limits{MaxP50Ns: 1499}, lat, "2 bytes: median latency is 1.5 us, the limit is 1.499"},
		{"p99", Limits{MaxP99Ns: 3000}, lat, "2 bytes: p99 latency is 4 us, the limit is 3"},
		{"no samples", Limits{MaxP99Ns: 3000}, &Size{Lat: &Summary{P99: TooFew}},
			"0 bytes: p99 latency needs 100 samples and has 0, the limit is 3 us"},
		{"in MiB/s", Limits{MinBits: 9 << 30, MiB: true}, bw,
			"64 bytes: bandwidth is 1072.88 MiB/s, the limit is 1152"},
		{"of each size", Limits{EachBits: 9.5e9}, bw, "64 bytes: bandwidth is 9 Gb/s, the limit is 9.5"},
		{"of another size", Limits{EachBits: 9.5e9, EachOf: 128}, bw, ""},
		{"another's limits", Limits{MinBits: 1e12}, lat, ""},
	} {
		got := ""
		for i, err := range tc.l.Missed(tc.s) {
			if i > 0 {
				got += "; "
			}
			got += err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestLimitsOfSizes: as in perftest, one size that reaches -w or -y is enough; all have to reach the others.
func TestLimitsOfSizes(t *testing.T) {
	sizes := []Size{{Bytes: 2, BW: &Bandwidth{BitsPerSecond: 1e9, MessagesPerSecond: 9e6}},
		{Bytes: 4, BW: &Bandwidth{BitsPerSecond: 9e9, MessagesPerSecond: 1e6}}}
	for _, tc := range []struct {
		l    Limits
		want []string
	}{
		{Limits{MinBits: 9e9, MinRate: 9e6}, nil},
		{Limits{MinBits: 10e9}, []string{"best of 2 sizes, 4 bytes: bandwidth is 9 Gb/s, the limit is 10"}},
		{Limits{MinRate: 10e6},
			[]string{"best of 2 sizes, 2 bytes: message rate is 9 million per second, the limit is 10"}},
		{Limits{EachBits: 2e9}, []string{"2 bytes: bandwidth is 1 Gb/s, the limit is 2"}},
		{Limits{EachBits: 2e9, EachOf: 4}, nil},
	} {
		var got []string
		for _, err := range tc.l.MissedBy(sizes) {
			got = append(got, err.Error())
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%+v: %q, want %q", tc.l, got, tc.want)
		}
	}
}
