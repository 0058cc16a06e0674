package ibv

import (
	"fmt"
	"strconv"
)

// linkSpeeds are the speeds of one lane, by bit of ibv_port_attr.active_speed, or of
// active_speed_ex for those above NDR.
var linkSpeeds = []struct {
	name string
	gbps float64 // as in the kernel's rate file in sysfs
}{
	{"SDR", 2.5}, {"DDR", 5}, {"QDR", 10}, {"FDR10", 10}, {"FDR", 14}, {"EDR", 25}, {"HDR", 50},
	{"NDR", 100}, {"XDR", 200},
}

// linkLanes are the numbers of lanes, by bit of active_width.
var linkLanes = []int{1, 4, 8, 12, 2}

// bitIndex returns the number of the only bit set in v, or -1.
func bitIndex(v uint32, n int) int {
	for i := range n {
		if v == 1<<i {
			return i
		}
	}
	return -1
}

// portRate returns the nominal rate of a port in Gb/s, 0 if speed or width is unknown.
func portRate(speed uint32, width uint8) float64 {
	s, w := bitIndex(speed, len(linkSpeeds)), bitIndex(uint32(width), len(linkLanes))
	if s < 0 || w < 0 {
		return 0
	}
	return linkSpeeds[s].gbps * float64(linkLanes[w])
}

// portRateString returns the rate with width and speed, as in "400 Gb/s (4X NDR)".
func portRateString(speed uint32, width uint8) string {
	lanes, name := fmt.Sprintf("width %d", width), fmt.Sprintf("speed %#x", speed)
	if w := bitIndex(uint32(width), len(linkLanes)); w >= 0 {
		lanes = strconv.Itoa(linkLanes[w]) + "X"
	}
	if s := bitIndex(speed, len(linkSpeeds)); s >= 0 {
		name = linkSpeeds[s].name
	}
	rate := "unknown"
	if r := portRate(speed, width); r > 0 {
		rate = strconv.FormatFloat(r, 'g', -1, 64) + " Gb/s"
	}
	return rate + " (" + lanes + " " + name + ")"
}

// rates are the exact signalling rates, in Mb/s.
var rates = [...]int{
	Rate2_5Gbps: 2500, Rate10Gbps: 10000, Rate30Gbps: 30000, Rate5Gbps: 5000, Rate20Gbps: 20000, Rate40Gbps: 40000,
	Rate60Gbps: 60000, Rate80Gbps: 80000, Rate120Gbps: 120000, Rate14Gbps: 14062, Rate56Gbps: 56250,
	Rate112Gbps: 112500, Rate168Gbps: 168750, Rate25Gbps: 25781, Rate100Gbps: 103125, Rate200Gbps: 206250,
	Rate300Gbps: 309375, Rate28Gbps: 28125, Rate50Gbps: 53125, Rate400Gbps: 425000, Rate600Gbps: 637500,
	Rate800Gbps: 850000, Rate1200Gbps: 1275000,
}

// Mbps returns the signalling rate in Mb/s, 0 for RateMax and for unknown values.
//
// C: ibv_rate_to_mbps(3), which returns -1 instead of 0.
func (r Rate) Mbps() int {
	if int(r) >= len(rates) {
		return 0
	}
	return rates[r]
}

// RateFromMbps returns the Rate whose Mbps is n and true, or RateMax and false if there is
// none.
//
// C: mbps_to_ibv_rate(3).
func RateFromMbps(n int) (Rate, bool) {
	for r := range rates {
		if n != 0 && rates[r] == n {
			return Rate(r), true
		}
	}
	return RateMax, false
}
