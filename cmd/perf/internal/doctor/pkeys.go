package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// member is the bit of a P_Key that makes a full member of its partition. Two limited members cannot reach each other.
const member = 0x8000

// pkeys checks the partitions of a port of InfiniBand. Programs take the P_Key of index 0 unless they are told another.
func (x *examination) pkeys(d *Device, p sysfs.Port, name string) {
	where := []string{"class", "infiniband", d.Name, "ports", fmt.Sprint(p.Number), "pkeys"}
	indices, err := x.Sys.Names(where...)
	if err != nil || p.LinkLayer != sysfs.LinkInfiniBand || p.StateName != sysfs.StateActive {
		return
	}
	first, full, all := int64(0), "", []string{}
	for _, i := range indices {
		key, ok := x.Sys.Number(append(slices.Clone(where), i)...)
		if !ok || key&^member == 0 {
			continue
		}
		if all = append(all, fmt.Sprintf("%s: 0x%04x", i, key)); i == "0" {
			first = key
		}
		if full == "" && key&member != 0 {
			full = i
		}
	}
	f := Finding{Subject: name, Check: "pkey", Text: "a full member of the partition of P_Key index 0",
		Evidence: x.Sys.String() + "/" + strings.Join(where, "/") + ": " + strings.Join(all, ", "),
		Remedy:   "perf ... --pkey-index " + full}
	switch {
	case len(indices) == 0:
		return
	case len(all) == 0:
		f.Severity, f.Text = Error, "the port is in no partition: all its P_Keys are empty"
		f.Remedy = "partitions.conf of opensm, or UFM    # add the port's GUID to a partition"
	case full == "":
		f.Severity, f.Text = Warning, "only a limited member of its partitions: limited members cannot reach each other"
		f.Remedy = "partitions.conf of opensm, or UFM    # GUID=full"
	case first == 0:
		f.Severity, f.Text = Warning, "P_Key index 0 is empty, and programs use it unless they are told another"
	case first&member == 0:
		f.Severity, f.Text = Note, "a limited member of the partition of P_Key index 0: it reaches full members only"
	default:
		f.Remedy = ""
	}
	x.add(f)
}
