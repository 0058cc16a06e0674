package doctor

import (
	"fmt"
	"strings"

	"github.com/pureverbs/pureverbs/hostfacts"
)

// pkeys checks the partitions of a port of InfiniBand. Programs take the P_Key of index 0 unless they are told another.
func (x *examination) pkeys(d *Device, p hostfacts.Port, name string) {
	where := []string{"class", "infiniband", d.Name, "ports", fmt.Sprint(p.Number), "pkeys"}
	keys, _ := x.Facts.PKeys(d.Name, p.Number)
	if p.LinkLayer != hostfacts.InfiniBand || !p.Active() {
		return
	}
	first, full, all := hostfacts.PKey{}, "", []string{}
	for _, k := range keys {
		if k.Empty() {
			continue
		}
		if all = append(all, fmt.Sprintf("%d: 0x%04x", k.Index, k.Key)); k.Index == 0 {
			first = k
		}
		if full == "" && k.Full() {
			full = fmt.Sprint(k.Index)
		}
	}
	f := Finding{Subject: name, Check: "pkey", Text: "a full member of the partition of P_Key index 0",
		Evidence: x.sysfs().String() + "/" + strings.Join(where, "/") + ": " + strings.Join(all, ", "),
		Remedy:   "rdmaperf ... --pkey-index " + full}
	switch {
	case len(keys) == 0:
		return
	case len(all) == 0:
		f.is(Error, "partitions.conf of opensm, or UFM    # add the port's GUID to a partition",
			"the port is in no partition: all its P_Keys are empty")
	case full == "":
		f.Severity, f.Text = Warning, "only a limited member of its partitions: limited members cannot reach each other"
		f.Remedy = "partitions.conf of opensm, or UFM    # GUID=full"
	case first.Empty():
		f.Severity, f.Text = Warning, "P_Key index 0 is empty, and programs use it unless they are told another"
	case !first.Full():
		f.Severity, f.Text = Note, "a limited member of the partition of P_Key index 0: it reaches full members only"
	default:
		f.Remedy = ""
	}
	x.add(f)
}
