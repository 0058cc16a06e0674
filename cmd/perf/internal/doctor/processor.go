package doctor

// processor checks the governors of the CPUs.
func (x *examination) processor() {
	count, _ := x.Facts.Governors()
	total := 0
	for _, n := range count {
		total += n
	}
	if total == 0 {
		return // a virtual machine: the host's business
	}
	f := Finding{Subject: "host", Check: "governor", Text: "the CPUs run at full speed",
		Evidence: x.sysfs().String() + "/devices/system/cpu/cpu*/cpufreq/scaling_governor: performance"}
	for g, n := range count {
		if g == "performance" {
			continue
		}
		f.is(Warning, "cpupower frequency-set -g performance", "the governor of %d of %d CPUs is %s: latencies vary", n,
			total, g)
		f.Evidence = x.sysfs().String() + "/devices/system/cpu/cpu*/cpufreq/scaling_governor"
		break
	}
	x.add(f)
}
