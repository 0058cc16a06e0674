package ibv

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// attributeRows has, for each attribute that a device or a port reports, the declarations that obey it, as "folder
// name" in this repository, or why nothing has to. A method is named "Type.name".
var attributeRows = map[string]string{
	"PortAttr.State":         "ibv QP.Endpoint, ibv Device.activePort, rdmacm Conn.explainTimeout",
	"PortAttr.MaxMTU":        "- ActiveMTU is what a path may have",
	"PortAttr.ActiveMTU":     "ibv connector.rtrAttr, ibv QP.beyond, ibv QP.Endpoint, rdma/internal/packet Conn.look",
	"PortAttr.GIDTableLen":   "ibv QP.Endpoint, ibv QP.beyond",
	"PortAttr.CapFlags":      "- what the subnet's manager may ask of the port; no verb depends on it",
	"PortAttr.CapFlags2":     "- the same",
	"PortAttr.MaxMsgSize":    "cmd/perf/internal/session Session.openDevice, rdma/internal/link Engine.readDevice",
	"PortAttr.BadPKeyCntr":   "- a counter",
	"PortAttr.QKeyViolCntr":  "- a counter",
	"PortAttr.PKeyTableLen":  "ibv Device.PKeyIndex, ibv QP.beyond",
	"PortAttr.LID":           "ibv QP.Endpoint",
	"PortAttr.SMLID":         "- librdmacm and the kernel talk to the subnet's manager",
	"PortAttr.LMC":           "ibv Device.checkPathBits",
	"PortAttr.MaxVLNum":      "- the subnet's manager maps service levels to virtual lanes",
	"PortAttr.SMSL":          "- as SMLID",
	"PortAttr.SubnetTimeout": "- as SMLID",
	"PortAttr.InitTypeReply": "- the subnet's manager has filled it in",
	"PortAttr.PhysState":     "- State says whether packets pass",
	"PortAttr.LinkLayer":     "ibv PortAttr.GRHRequired, ibv Device.readServiceLevels",
	"PortAttr.Flags":         "ibv PortAttr.GRHRequired",
	"PortAttr.ActiveWidth":   "ibv PortAttr.RateGbps, ibv PortAttr.Rate",
	"PortAttr.ActiveSpeed":   "ibv PortAttr.RateGbps, ibv PortAttr.Rate",

	"DeviceAttr.FirmwareVersion": "- identity",
	"DeviceAttr.NodeGUID":        "- identity",
	"DeviceAttr.SysImageGUID":    "- identity",
	"DeviceAttr.MaxMRSize":       "ibv Device.explainRegister",
	"DeviceAttr.PageSizeCap":     "- the kernel chooses the pages of an MR",
	"DeviceAttr.VendorID":        "ibv Device.softRoCE, ibv Device.mayBeMLX5",
	"DeviceAttr.VendorPartID":    "ibv Device.mayBeMLX5",
	"DeviceAttr.HWVersion":       "- identity",
	"DeviceAttr.MaxQP":           "- " + ofAllPrograms,
	"DeviceAttr.MaxQPWR": "ibv numMaxSendWR, ibv numMaxRecvWR, ibv mostWQ, ibv PD.resolve, " +
		"rdma/internal/link Shard.sizeReceives",
	"DeviceAttr.CapFlags": "ibv Device.CanBindMW, ibv SRQ.explainResize, ibv Device.explainXRC, " +
		"ibv sender.checkFrame",
	"DeviceAttr.MaxSGE":          "ibv numMaxSendSGE, ibv numMaxRecvSGE, ibv numWQSGE",
	"DeviceAttr.MaxSGERead":      "ibv checkRead",
	"DeviceAttr.MaxCQ":           "- " + ofAllPrograms,
	"DeviceAttr.MaxCQE":          "ibv numCQE, rdma/internal/link Shard.sizeReceives",
	"DeviceAttr.MaxMR":           "- " + ofAllPrograms,
	"DeviceAttr.MaxPD":           "- " + ofAllPrograms,
	"DeviceAttr.MaxQPRdAtom":     "ibv QP.Endpoint, ibv QP.beyond, ibv friends.ReadLimits",
	"DeviceAttr.MaxResRdAtom":    "- the device shares them out among QPs, and a peer that asks for more waits",
	"DeviceAttr.MaxQPInitRdAtom": "ibv QP.Endpoint, ibv QP.beyond, ibv friends.ReadLimits",
	"DeviceAttr.AtomicCap": "ibv connector.access, ibv Device.lackedOps, ibv QP.beyond, ibv friends.HasAtomics, " +
		"rdma beginLease, rdma leasing.mayAtomic",
	"DeviceAttr.MaxMW":                 "- " + ofAllPrograms + "; CanBindMW has CapFlags, for mlx4 reports 0",
	"DeviceAttr.MaxRawEthyQP":          "- " + ofAllPrograms,
	"DeviceAttr.MaxMcastGroups":        "- " + ofAllPrograms,
	"DeviceAttr.MaxMcastQPAttach":      "- " + ofAllPrograms,
	"DeviceAttr.MaxTotalMcastQPAttach": "- " + ofAllPrograms,
	"DeviceAttr.MaxAH":                 "- " + ofAllPrograms,
	"DeviceAttr.MaxSRQ":                "rdma/internal/link HasSRQ",
	"DeviceAttr.MaxSRQWR":              "ibv numSRQWR, ibv PD.CreateSRQ, rdma/internal/link Shard.sizeReceives",
	"DeviceAttr.MaxSRQSGE":             "ibv numSRQSGE",
	"DeviceAttr.MaxPKeys":              "- PortAttr.PKeyTableLen is that of the port",
	"DeviceAttr.LocalCAAckDelay":       "- a sender waits for the peer's delay, which no endpoint carries",
	"DeviceAttr.PhysPortCnt":           "ibv Device.checkPort, ibv Device.activePort, ibv Device.badAddress",
	"DeviceAttr.Ex":                    "ibv DeviceAttr.extended",

	"DeviceAttrEx.ODP.General":                 "ibv Device.pages, ibv PD.RegImplicit",
	"DeviceAttrEx.ODP.RC":                      "- " + whenPosted,
	"DeviceAttrEx.ODP.UC":                      "- " + whenPosted,
	"DeviceAttrEx.ODP.UD":                      "- " + whenPosted,
	"DeviceAttrEx.ODP.XRC":                     "- " + whenPosted,
	"DeviceAttrEx.CompletionTimestampMask":     "cmd/perf/internal/session Session.Clock",
	"DeviceAttrEx.HCACoreClockKHz":             "ibv DeviceAttrEx.Ticks, cmd/perf/internal/session Session.Clock",
	"DeviceAttrEx.CapFlagsEx":                  "ibv Device.mayHave",
	"DeviceAttrEx.TSOMaxBytes":                 "ibv checkTSO",
	"DeviceAttrEx.TSOQPTypes":                  "ibv RawOptions.request",
	"DeviceAttrEx.RSS.QPTypes":                 "ibv RSSOptions.check",
	"DeviceAttrEx.RSS.MaxIndirectionTables":    "- " + ofAllPrograms,
	"DeviceAttrEx.RSS.MaxIndirectionTableSize": "ibv numIndTable",
	"DeviceAttrEx.RSS.HashFields":              "ibv RSSOptions.check",
	"DeviceAttrEx.RSS.HashFunctions":           "ibv RSSOptions.check",
	"DeviceAttrEx.MaxWQTypeRQ":                 "ibv mostWQ",
	"DeviceAttrEx.PacketPacing.Min":            "ibv RateLimit.check",
	"DeviceAttrEx.PacketPacing.Max":            "ibv RateLimit.check",
	"DeviceAttrEx.PacketPacing.QPTypes":        "ibv RateLimit.check",
	"DeviceAttrEx.RawPacketCaps":               "ibv RawOptions.request, ibv WQOptions.check",
	"DeviceAttrEx.TagMatching.MaxRendezvousHeader": "- the receiver's buffer has a rendezvous header; it is the " +
		"program's, and longer ones end with an error",
	"DeviceAttrEx.TagMatching.MaxTags":   "ibv numTags",
	"DeviceAttrEx.TagMatching.Flags":     "- CreateSRQ and CreateQP are refused by the driver, and explained",
	"DeviceAttrEx.TagMatching.MaxOps":    "ibv numTagOps",
	"DeviceAttrEx.TagMatching.MaxSGE":    "ibv SRQ.joinTags",
	"DeviceAttrEx.CQModerationMaxCount":  "ibv Device.moderation",
	"DeviceAttrEx.CQModerationMaxPeriod": "ibv Device.moderation",
	"DeviceAttrEx.MaxDMSize":             "ibv numDM",
	"DeviceAttrEx.PCIAtomicFetchAdd":     "- of atomics in the host's memory; the driver has AtomicCap from it",
	"DeviceAttrEx.PCIAtomicSwap":         "- the same",
	"DeviceAttrEx.PCIAtomicCompareSwap":  "- the same",
	"DeviceAttrEx.PhysPortCntEx":         "- the calls of C take 8 bits of a port's number",
}

const (
	ofAllPrograms = "the kernel counts those of all programs, and refuses more with ENOMEM"
	whenPosted    = "which operations reach an MR is seen when they are posted; the device ends others with an error"
)

// TestAttributes: each attribute has a row, and each declaration that a row names reads the attribute. A field without
// a row fails it, and so does a declaration that no longer obeys.
func TestAttributes(t *testing.T) {
	rows := maps.Clone(attributeRows)
	reads := map[string]map[string]map[string]bool{} // by folder and declaration: the fields that it selects
	for _, typ := range []reflect.Type{reflect.TypeFor[PortAttr](), reflect.TypeFor[DeviceAttr](),
		reflect.TypeFor[DeviceAttrEx]()} {
		for _, name := range attributesOf(typ, typ.Name()) {
			row, known := rows[name]
			delete(rows, name)
			switch why, none := strings.CutPrefix(row, "- "); {
			case !known || row == "":
				t.Errorf("attributeRows lacks %s: what obeys it, or why does nothing have to?", name)
				continue
			case none && len(why) < 8:
				t.Errorf("%s: no reason", name)
				continue
			case none:
				continue
			}
			field := name[strings.LastIndexByte(name, '.')+1:]
			for place := range strings.SplitSeq(row, ", ") {
				dir, decl, _ := strings.Cut(place, " ")
				if reads[dir] == nil {
					reads[dir] = selections(t, filepath.Join("..", dir))
				}
				if fields, is := reads[dir][decl]; !is {
					t.Errorf("%s: %s has no %s", name, dir, decl)
				} else if !fields[field] {
					t.Errorf("%s: %s of %s does not read it", name, decl, dir)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		t.Errorf("attributeRows has %s, and no struct has it", name)
	}
}

// attributesOf returns the fields of a struct of attributes, and of the structs in it.
func attributesOf(typ reflect.Type, name string) (list []string) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Type.Kind() == reflect.Struct && strings.HasSuffix(f.Type.Name(), "Caps") {
			list = append(list, attributesOf(f.Type, name+"."+f.Name)...)
			continue
		}
		list = append(list, name+"."+f.Name)
	}
	return list
}

// selections returns the names that each declaration of a package selects, as in x.Name.
func selections(t *testing.T, dir string) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	note := func(name string, n ast.Node) {
		if all[name] == nil {
			all[name] = map[string]bool{}
		}
		ast.Inspect(n, func(n ast.Node) bool {
			if s, is := n.(*ast.SelectorExpr); is {
				all[name][s.Sel.Name] = true
			}
			return true
		})
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = typeName(d.Recv.List[0].Type) + "." + name
				}
				note(name, d)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, is := s.(*ast.ValueSpec); is {
						for _, n := range v.Names {
							note(n.Name, v)
						}
					}
				}
			}
		}
	}
	return all
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
