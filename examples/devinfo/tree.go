package main

import (
	"fmt"
	"io"
	"strings"
)

// tree prints the report for people.
func tree(out io.Writer, r *report, verbose bool) error {
	w := &writer{out: out}
	for i, d := range r.Devices {
		if i > 0 {
			w.line(0, "")
		}
		w.line(0, "%s", d.Name)
		w.value(1, "node", fmt.Sprintf("%s, %s", d.NodeGUID, d.NodeType))
		w.value(1, "transport", d.Transport)
		if d.known {
			w.device(d, verbose)
		}
		for _, p := range d.Ports {
			w.port(p, verbose)
		}
		if d.Error != "" {
			w.value(1, "error", d.Error)
		}
	}
	return w.err
}

// writer keeps the first error.
type writer struct {
	out io.Writer
	err error
}

func (w *writer) line(depth int, format string, args ...any) {
	if w.err == nil {
		s := strings.Repeat("  ", depth) + escape(fmt.Sprintf(format, args...), "")
		_, w.err = fmt.Fprintln(w.out, strings.TrimRight(s, " "))
	}
}

// value lines up the values whatever the depth.
func (w *writer) value(depth int, name string, v any) {
	w.line(depth, "%-*s %v", 36-2*depth, name, v)
}

func (w *writer) fields(depth int, fs fields) {
	for _, f := range fs {
		w.value(depth, f.name, f.value)
	}
}

func (w *writer) device(d device, verbose bool) {
	if d.Firmware != "" {
		w.value(1, "firmware", d.Firmware)
	}
	w.value(1, "vendor, part, hardware", fmt.Sprintf("0x%04x, %d, %#x", d.VendorID, d.VendorPartID, d.HWVersion))
	if !verbose {
		return
	}
	w.value(1, "system image", d.SysImageGUID)
	w.value(1, "completion vectors", d.CompVectors)
	w.line(1, "attributes")
	w.fields(2, d.Attributes)
	if d.Extended != nil {
		w.line(1, "extended attributes")
		w.fields(2, d.Extended)
	}
}

func (w *writer) port(p port, verbose bool) {
	w.line(1, "port %d", p.Port)
	w.value(2, "state", fmt.Sprintf("%s (%s)", p.State, p.PhysState))
	w.value(2, "link layer", p.LinkLayer)
	w.value(2, "rate", p.Rate)
	w.value(2, "mtu", fmt.Sprintf("%d of %d", p.ActiveMTU, p.MaxMTU))
	if p.LinkLayer != "Ethernet" || verbose {
		w.value(2, "lid, sm lid, lmc", fmt.Sprintf("%d, %d, %d", p.LID, p.SMLID, p.LMC))
	}
	if verbose {
		w.fields(2, p.Attributes)
	}
	for _, g := range p.GIDs {
		w.value(2, fmt.Sprintf("gid %d", g.Index),
			strings.TrimSpace(fmt.Sprintf("%-39s %s %s", g.GID, g.Type, g.Netdev)))
	}
	for _, k := range p.PKeys {
		w.value(2, fmt.Sprintf("pkey %d", k.Index), k.PKey)
	}
}
