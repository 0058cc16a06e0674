package doctor

import (
	"fmt"
	"strings"
)

// processor checks the governors of the CPUs.
func (x *examination) processor() {
	count := map[string]int{}
	names, _ := x.Sys.Names("devices", "system", "cpu")
	total := 0
	for _, n := range names {
		if digits, ok := strings.CutPrefix(n, "cpu"); !ok || digits == "" || strings.Trim(digits, "0123456789") != "" {
			continue
		}
		if g, err := x.Sys.Attr("devices", "system", "cpu", n, "cpufreq", "scaling_governor"); err == nil {
			count[strings.TrimSpace(g)]++
			total++
		}
	}
	if total == 0 {
		return // a virtual machine: the host's business
	}
	f := Finding{Subject: "host", Check: "governor", Text: "the CPUs run at full speed",
		Evidence: x.Sys.String() + "/devices/system/cpu/cpu*/cpufreq/scaling_governor: performance"}
	for g, n := range count {
		if g == "performance" {
			continue
		}
		f.Severity, f.Remedy = Warning, "cpupower frequency-set -g performance"
		f.Text = fmt.Sprintf("the governor of %d of %d CPUs is %s: latencies vary", n, total, g)
		f.Evidence = x.Sys.String() + "/devices/system/cpu/cpu*/cpufreq/scaling_governor"
		break
	}
	x.add(f)
}
