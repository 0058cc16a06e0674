package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/dcb"
	"github.com/pureverbs/pureverbs/hostfacts"
)

// usualDSCP is the DSCP that vendors' guides give RoCE, where the table gives it flow control.
const usualDSCP = 26

// flow has the state of a port's flow and congestion control.
type flow struct {
	netdev       string
	tagged       bool            // packets of the best GID have a VLAN tag, and with it a PCP
	trust        string          // dscp or pcp; of a table all with commas, or nothing; empty: not known
	order        bool            // the driver has a table of trust, which dcb sets
	pfc          string          // "0 0 0 1 0 0 0 0" by priority; empty: not known
	class        uint8           // the traffic class of packets whose program sets none
	dscp         map[uint8]uint8 // priority by DSCP; nil: not known
	ecn, ecnRead bool            // on for all priorities; whether that is known
	seen, from   []string
}

// congestion checks flow and congestion control, by netlink and by files of vendors' drivers in sysfs.
func (x *examination) congestion(d *Device, p hostfacts.Port, name string, l *Link) {
	if l.Netdev == "" || d.PCIAddress == "" {
		return
	}
	w := &flow{netdev: x.lower(d, l.Netdev), ecn: true}
	x.flowOfSysfs(d, p, l, w)
	port, err := x.DCB(w.netdev)
	if err == nil {
		w.dcb(d, port, l)
	}
	f := Finding{Subject: name, Check: "qos", Text: strings.Join(w.seen, ", "), Evidence: strings.Join(w.from, "; ")}
	if len(l.Lossless) == 0 {
		f.Severity, f.Text = Note, "PFC, ECN and trust cannot be told: the driver reports none"
		if err != nil {
			w.from = []string{err.Error()}
		}
		f.Evidence = fmt.Sprintf("%s; %v/class/net/%s/{qos,ecn} do not exist", strings.Join(w.from, "; "), x.sysfs(),
			w.netdev)
		if d.Function != hostfacts.PF {
			f.Remedy = "dcb pfc show dev NETDEV; dcb app show dev NETDEV    # on the host, of the physical function"
		}
	} else {
		n, _ := x.Facts.Netdev(l.Netdev)
		w.tagged = n.VLAN
		w.judge(&f, l)
	}
	x.add(f)
}

// flowOfSysfs reads what only vendors' drivers have.
func (x *examination) flowOfSysfs(d *Device, p hostfacts.Port, l *Link, w *flow) {
	read := func(key string, elem ...string) string {
		s, err := x.sysfs().Attr(append([]string{"class", "net", w.netdev}, elem...)...)
		if err != nil {
			return ""
		}
		s = strings.TrimSpace(s)
		l.Lossless[key] = s
		w.seen = append(w.seen, key+" "+s)
		return s
	}
	w.trust, w.pfc = read("trust", "qos", "trust"), read("pfc", "qos", "pfc")
	for prio := range 8 {
		for _, side := range []string{"roce_np", "roce_rp"} {
			v, err := x.sysfs().Attr("class", "net", w.netdev, "ecn", side, "enable", fmt.Sprint(prio))
			if err == nil {
				l.Lossless[fmt.Sprintf("%s_%d", side, prio)] = v
				w.ecn, w.ecnRead = w.ecn && v != "0", true
			}
		}
	}
	class, err := x.sysfs().Attr("class", "infiniband", d.Name, "tc", fmt.Sprint(p.Number), "traffic_class")
	if err == nil {
		l.Lossless["traffic_class"] = class
		w.seen = append(w.seen, "traffic_class "+class)
		n, _ := strconv.ParseUint(class[strings.LastIndexByte(class, '=')+1:], 10, 8)
		w.class = uint8(n)
	}
	if len(l.Lossless) > 0 {
		w.from = []string{x.sysfs().String() + "/class/net/" + w.netdev + "/{qos,ecn}"}
	}
}

// dcb adds what netlink reports, where sysfs does not.
func (w *flow) dcb(d *Device, port *dcb.Port, l *Link) {
	note := func(key, value string) {
		l.Lossless[key] = value
		w.seen = append(w.seen, key+" "+value)
	}
	w.dscp = port.DSCP()
	if w.trust == "" {
		switch mlx5, _, _ := strings.Cut(d.Driver, "."); {
		case port.Trust != nil:
			w.trust, w.order = trusted(port.Trust), true
		case w.dscp != nil:
			w.trust = "dscp"
		case mlx5 == "mlx5_core" && port.PFC != nil:
			w.trust = "pcp" // this driver has entries by DSCP while it trusts the DSCP, and only then
		}
		if w.trust != "" {
			note("trust", w.trust)
		}
	}
	if w.pfc == "" && port.PFC != nil {
		var on [8]string
		for i := range on {
			on[i] = "0"
			if port.PFC.On(uint8(i)) {
				on[i] = "1"
			}
		}
		w.pfc = strings.Join(on[:], " ")
		note("pfc", w.pfc)
	}
	if w.dscp != nil {
		note("dscp_priority", ranges(w.dscp))
	}
	if port.Class != nil {
		note("priority_class", strings.Trim(fmt.Sprint(*port.Class), "[]"))
	}
	if port.Mode != nil {
		note("dcbx", decider(*port.Mode))
	}
	w.from = append(w.from, "netlink (RTM_GETDCB) of "+w.netdev)
}

// trusted names the selectors of a trust table.
func trusted(selectors []uint8) string {
	var names []string
	for _, s := range selectors {
		switch s {
		case dcb.SelDSCP:
			names = append(names, "dscp")
		case dcb.SelPCP:
			names = append(names, "pcp")
		default:
			names = append(names, fmt.Sprint(s))
		}
	}
	if names == nil {
		return "nothing"
	}
	return strings.Join(names, ",")
}

// decider says who negotiates with the switch.
func decider(m dcb.Mode) string {
	switch {
	case m&dcb.Static != 0:
		return "firmware, static"
	case m&dcb.Adapter != 0:
		return "firmware"
	case m&dcb.Host != 0:
		return "host"
	}
	return "nobody"
}

// ranges prints a table from DSCP to priority: "0-7:0 26:3".
func ranges(table map[uint8]uint8) string {
	var out []string
	for at := 0; at < 64; at++ {
		priority, ok := table[uint8(at)]
		if !ok {
			continue
		}
		end := at
		for next, ok := table[uint8(end+1)]; ok && next == priority; next, ok = table[uint8(end+1)] {
			end++
		}
		part := fmt.Sprintf("%d:%d", at, priority)
		if end > at {
			part = fmt.Sprintf("%d-%d:%d", at, end, priority)
		}
		out = append(out, part)
		at = end
	}
	return strings.Join(out, " ")
}

// lossless reports whether a priority has flow control.
func (w *flow) lossless(priority uint8) bool {
	f := strings.Fields(w.pfc)
	return int(priority) < len(f) && f[priority] == "1"
}

// judge says what is wrong with the flow control.
func (w *flow) judge(f *Finding, l *Link) {
	off := w.pfc != "" && !strings.Contains(w.pfc, "1")
	priority, known := w.dscp[w.class>>2]
	marked := w.trust == "both" || slices.Contains(strings.Split(w.trust, ","), "dscp")
	trusts := w.trust
	if trusts == "pcp" {
		trusts = "the PCP of VLAN tags"
	}
	switch {
	case w.tagged && w.trust == "pcp" && !marked && !off:
		f.is(Note, "", "the port trusts the PCP of VLAN tags: only packets of %s have priorities", l.Netdev)
	case (w.order || w.trust == "pcp") && !marked && !off:
		f.is(Warning, "mlnx_qos -i "+w.netdev+" --trust dscp    # or: dcb app add dev "+w.netdev+" dscp-prio 26:3",
			"the port trusts %s, but RoCE v2 marks the DSCP", trusts)
		if w.order {
			f.Remedy = "dcb apptrust set dev " + w.netdev + " order dscp pcp"
		}
	case off && w.ecnRead && !w.ecn:
		f.is(Warning, "mlnx_qos -i "+w.netdev+" --pfc 0,0,0,1,0,0,0,0",
			"neither PFC nor ECN is on: a congested switch drops packets")
	case off && !w.ecnRead:
		f.is(Note, "dcb pfc set dev "+w.netdev+" prio-pfc 3:on    # if the switch has PFC for this priority",
			"PFC is off for all priorities, and whether ECN is on cannot be told: without both a congested switch "+
				"drops packets")
	case !off && w.pfc != "" && marked && w.dscp != nil && known && !w.lossless(priority):
		f.is(Note, "", "packets of traffic class %d (DSCP %d) get priority %d, which has no PFC", w.class, w.class>>2,
			priority)
		if dscp, ok := w.better(); ok {
			f.Remedy = fmt.Sprintf("rdmaperf ... --tclass %d    # DSCP %d has priority %d. NCCL_IB_TC=%d",
				dscp<<2, dscp, w.dscp[dscp], dscp<<2)
		}
	case w.ecnRead && !w.ecn:
		f.is(Note, "echo 1 > /sys/class/net/"+w.netdev+"/ecn/roce_np/enable/3    # and roce_rp",
			"ECN is off for some priority")
	}
}

// better returns a DSCP whose packets get flow control.
func (w *flow) better() (dscp uint8, ok bool) {
	if p, there := w.dscp[usualDSCP]; there && w.lossless(p) {
		return usualDSCP, true
	}
	for dscp := range uint8(64) {
		if p, there := w.dscp[dscp]; there && w.lossless(p) {
			return dscp, true
		}
	}
	return 0, false
}
