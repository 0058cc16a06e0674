package ibv

import "testing"

func TestPortRate(t *testing.T) {
	tests := []struct {
		speed uint32
		width uint8
		gbps  float64
		text  string
	}{
		{1, 1, 2.5, "2.5 Gb/s (1X SDR)"},
		{1, 2, 10, "10 Gb/s (4X SDR)"},
		{2, 2, 20, "20 Gb/s (4X DDR)"},
		{4, 2, 40, "40 Gb/s (4X QDR)"},
		{8, 2, 40, "40 Gb/s (4X FDR10)"},
		{16, 2, 56, "56 Gb/s (4X FDR)"},
		{16, 1, 14, "14 Gb/s (1X FDR)"},
		{32, 2, 100, "100 Gb/s (4X EDR)"},
		{32, 8, 300, "300 Gb/s (12X EDR)"},
		{64, 16, 100, "100 Gb/s (2X HDR)"},
		{64, 2, 200, "200 Gb/s (4X HDR)"},
		{128, 2, 400, "400 Gb/s (4X NDR)"},
		{128, 4, 800, "800 Gb/s (8X NDR)"},
		{256, 2, 800, "800 Gb/s (4X XDR)"},
		{0, 2, 0, "unknown (4X speed 0x0)"},
		{3, 2, 0, "unknown (4X speed 0x3)"},
		{512, 2, 0, "unknown (4X speed 0x200)"},
		{128, 0, 0, "unknown (width 0 NDR)"},
		{128, 32, 0, "unknown (width 32 NDR)"},
		{^uint32(0), 255, 0, "unknown (width 255 speed 0xffffffff)"},
	}
	for _, tt := range tests {
		if got := portRate(tt.speed, tt.width); got != tt.gbps {
			t.Errorf("speed %d width %d: %v Gb/s, want %v", tt.speed, tt.width, got, tt.gbps)
		}
		if got := portRateString(tt.speed, tt.width); got != tt.text {
			t.Errorf("speed %d width %d: %q, want %q", tt.speed, tt.width, got, tt.text)
		}
	}
}

func TestRate(t *testing.T) {
	n := 0
	for r := Rate(0); r < 255; r++ {
		mbps := r.Mbps()
		if mbps == 0 {
			continue
		}
		n++
		if back, ok := RateFromMbps(mbps); !ok || back != r {
			t.Errorf("%v: %d Mb/s is %v", r, mbps, back)
		}
	}
	if n != 23 {
		t.Errorf("%d rates", n)
	}
	// Values of ibv_rate_to_mbps of libibverbs 44.
	for r, want := range map[Rate]int{Rate2_5Gbps: 2500, Rate14Gbps: 14062, Rate25Gbps: 25781, Rate100Gbps: 103125,
		Rate400Gbps: 425000, Rate1200Gbps: 1275000} {
		if got := r.Mbps(); got != want {
			t.Errorf("%v: %d Mb/s, want %d", r, got, want)
		}
	}
	for _, n := range []int{0, -1, 1, 100000} {
		if r, ok := RateFromMbps(n); ok {
			t.Errorf("%d Mb/s is %v", n, r)
		}
	}
	for r, want := range map[Rate]string{RateMax: "Max", Rate2_5Gbps: "2.5 Gb/s", Rate400Gbps: "400 Gb/s", 1: "Rate(1)",
		25: "Rate(25)", 255: "Rate(255)"} {
		if got := r.String(); got != want {
			t.Errorf("%d: %q, want %q", uint8(r), got, want)
		}
	}
}
