// Package doctor looks for what keeps RDMA on this machine from working, or from being fast. It reads sysfs, procfs and
// the libraries, and reports for each finding where it read it, and the command that fixes it.
package doctor

// Examine checks everything.
func Examine(h *Host, program string) *Report {
	x := newExamination(h, &Report{Tool: "rdmaperf doctor", SchemaVersion: 1, Program: program, Findings: []Finding{},
		Devices: []Device{}})
	x.Hostname, _ = h.Facts.Hostname()
	x.Kernel, _ = h.Facts.Kernel()
	x.libraries()
	x.modules()
	x.memlock()
	x.processor()
	x.iommu()
	x.devices()
	x.errors()
	x.firewall()
	return x.Report
}
