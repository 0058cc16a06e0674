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

// Rate is the static rate of an address handle: a limit on what is sent to that address.
//
// C: enum ibv_rate.
type Rate uint8

const (
	RateMax      Rate = 0  // the rate of the port. C: IBV_RATE_MAX.
	Rate2_5Gbps  Rate = 2  // C: IBV_RATE_2_5_GBPS.
	Rate10Gbps   Rate = 3  // C: IBV_RATE_10_GBPS.
	Rate30Gbps   Rate = 4  // C: IBV_RATE_30_GBPS.
	Rate5Gbps    Rate = 5  // C: IBV_RATE_5_GBPS.
	Rate20Gbps   Rate = 6  // C: IBV_RATE_20_GBPS.
	Rate40Gbps   Rate = 7  // C: IBV_RATE_40_GBPS.
	Rate60Gbps   Rate = 8  // C: IBV_RATE_60_GBPS.
	Rate80Gbps   Rate = 9  // C: IBV_RATE_80_GBPS.
	Rate120Gbps  Rate = 10 // C: IBV_RATE_120_GBPS.
	Rate14Gbps   Rate = 11 // C: IBV_RATE_14_GBPS.
	Rate56Gbps   Rate = 12 // C: IBV_RATE_56_GBPS.
	Rate112Gbps  Rate = 13 // C: IBV_RATE_112_GBPS.
	Rate168Gbps  Rate = 14 // C: IBV_RATE_168_GBPS.
	Rate25Gbps   Rate = 15 // C: IBV_RATE_25_GBPS.
	Rate100Gbps  Rate = 16 // C: IBV_RATE_100_GBPS.
	Rate200Gbps  Rate = 17 // C: IBV_RATE_200_GBPS.
	Rate300Gbps  Rate = 18 // C: IBV_RATE_300_GBPS.
	Rate28Gbps   Rate = 19 // C: IBV_RATE_28_GBPS.
	Rate50Gbps   Rate = 20 // C: IBV_RATE_50_GBPS.
	Rate400Gbps  Rate = 21 // C: IBV_RATE_400_GBPS.
	Rate600Gbps  Rate = 22 // C: IBV_RATE_600_GBPS.
	Rate800Gbps  Rate = 23 // C: IBV_RATE_800_GBPS.
	Rate1200Gbps Rate = 24 // C: IBV_RATE_1200_GBPS.
)

// rates are the names, in Gb/s, and the exact signalling rates, in Mb/s.
var rates = [...]struct {
	gbps string
	mbps int
}{
	Rate2_5Gbps: {"2.5", 2500}, Rate10Gbps: {"10", 10000}, Rate30Gbps: {"30", 30000}, Rate5Gbps: {"5", 5000},
	Rate20Gbps: {"20", 20000},
	Rate40Gbps: {"40", 40000}, Rate60Gbps: {"60", 60000}, Rate80Gbps: {"80", 80000}, Rate120Gbps: {"120", 120000},
	Rate14Gbps: {"14", 14062}, Rate56Gbps: {"56", 56250}, Rate112Gbps: {"112", 112500}, Rate168Gbps: {"168", 168750},
	Rate25Gbps: {"25", 25781}, Rate100Gbps: {"100", 103125}, Rate200Gbps: {"200", 206250}, Rate300Gbps: {"300", 309375},
	Rate28Gbps: {"28", 28125}, Rate50Gbps: {"50", 53125}, Rate400Gbps: {"400", 425000}, Rate600Gbps: {"600", 637500},
	Rate800Gbps: {"800", 850000}, Rate1200Gbps: {"1200", 1275000},
}

// String returns the rate, as in "400 Gb/s", or "Max".
func (r Rate) String() string {
	switch {
	case r == RateMax:
		return "Max"
	case int(r) < len(rates) && rates[r].mbps != 0:
		return rates[r].gbps + " Gb/s"
	}
	return fmt.Sprintf("Rate(%d)", uint8(r))
}

// Mbps returns the signalling rate in Mb/s, 0 for RateMax and for unknown values.
//
// C: ibv_rate_to_mbps(3), which returns -1 instead of 0.
func (r Rate) Mbps() int {
	if int(r) >= len(rates) {
		return 0
	}
	return rates[r].mbps
}

// RateFromMbps returns the Rate whose Mbps is n and true, or RateMax and false if there is
// none.
//
// C: mbps_to_ibv_rate(3).
func RateFromMbps(n int) (Rate, bool) {
	for r := range rates {
		if n != 0 && rates[r].mbps == n {
			return Rate(r), true
		}
	}
	return RateMax, false
}
