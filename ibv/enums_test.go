package ibv

import (
	"embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"regexp"
	"strings"
	"testing"
)

// sources are embedded, so that the test binary also runs elsewhere.
//
//go:embed enums_gen.go enums_work.go kind_*.go testdata/enums-v65.json
var sources embed.FS

// enumFiles have the constants whose names are printed.
var enumFiles = func() []string {
	kinds, err := sources.ReadDir(".")
	if err != nil {
		panic(err)
	}
	files := []string{"enums_gen.go", "enums_work.go"}
	for _, f := range kinds {
		if strings.HasPrefix(f.Name(), "kind_") {
			files = append(files, f.Name())
		}
	}
	return files
}()

// enumConst is an exported constant of this package that mirrors one of C.
type enumConst struct {
	goName, typ, cName string
	value              int64
}

var cNameRE = regexp.MustCompile(`C: (IBV_[A-Z0-9_]+)\.`)

// ofVerbs reports whether a constant of a kind of work request is an opcode of C: those from 16 on are this module's.
func ofVerbs(c *types.Const) bool {
	v, _ := constant.Int64Val(c.Val())
	t, named := c.Type().(*types.Named)
	return named && t.Obj().Name() == "Opcode" && v < 16
}

// enumConsts reads the constants of files and the C names in their comments.
func enumConsts(t *testing.T, files ...string) (list []enumConst) {
	t.Helper()
	fset := token.NewFileSet()
	var parsed []*ast.File
	var decls []ast.Decl
	for _, file := range files {
		src, err := sources.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(fset, file, src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed, decls = append(parsed, f), append(decls, f.Decls...)
	}
	info := &types.Info{Defs: make(map[*ast.Ident]types.Object)}
	// Imports and other files are missing, which constants do not need.
	conf := types.Config{Error: func(error) {}, IgnoreFuncBodies: true}
	_, _ = conf.Check("ibv", fset, parsed, info)
	for _, decl := range decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			spec := s.(*ast.ValueSpec)
			text := spec.Doc.Text() + spec.Comment.Text()
			if !g.Lparen.IsValid() {
				text += g.Doc.Text()
			}
			text = strings.ReplaceAll(text, "\n", " ")
			for _, id := range spec.Names {
				obj := info.Defs[id].(*types.Const)
				of := fset.Position(id.Pos()).Filename
				if !id.IsExported() || strings.HasPrefix(of, "kind_") && !ofVerbs(obj) {
					continue
				}
				e := enumConst{goName: id.Name, typ: obj.Type().(*types.Named).Obj().Name()}
				e.value, _ = constant.Int64Val(obj.Val())
				if m := cNameRE.FindStringSubmatch(text); m != nil {
					e.cName = m[1]
				}
				list = append(list, e)
			}
		}
	}
	return list
}

// The values in Go are those of the headers of rdma-core 65, in both directions:
// no name is missing on either side.
func TestEnums_Values(t *testing.T) {
	raw, err := sources.ReadFile("testdata/enums-v65.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]int64
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	consts := enumConsts(t, enumFiles...)
	if len(consts) < 200 {
		t.Fatalf("found %d constants only", len(consts))
	}
	seen := make(map[string]bool)
	for _, c := range consts {
		if c.typ == "PhysState" {
			if c.cName != "" {
				t.Errorf("%s names %s, and C has no names for it", c.goName, c.cName)
			}
			continue
		}
		v, ok := want[c.cName]
		switch {
		case c.goName == "AccessNone", c.goName == "SRD", c.goName == "DCI", c.goName == "DCT": // this package's
			continue
		case c.cName == "":
			t.Errorf("%s has no C name", c.goName)
		case !ok:
			t.Errorf("%s: %s is not in the header", c.goName, c.cName)
		case v != c.value:
			t.Errorf("%s = %d, %s = %d", c.goName, c.value, c.cName, v)
		case seen[c.cName]:
			t.Errorf("%s is there twice", c.cName)
		}
		seen[c.cName] = true
	}
	for name := range want {
		if !seen[name] {
			t.Errorf("%s has no constant in Go", name)
		}
	}
}

// stringers makes a value of each type.
var stringers = map[string]func(int64) fmt.Stringer{
	"QPType":         func(v int64) fmt.Stringer { return QPType(v) },
	"QPState":        func(v int64) fmt.Stringer { return QPState(v) },
	"MTU":            func(v int64) fmt.Stringer { return MTU(v) },
	"Opcode":         func(v int64) fmt.Stringer { return Opcode(v) },
	"SendFlags":      func(v int64) fmt.Stringer { return SendFlags(v) },
	"AccessFlags":    func(v int64) fmt.Stringer { return AccessFlags(v) },
	"WCStatus":       func(v int64) fmt.Stringer { return WCStatus(v) },
	"WCOpcode":       func(v int64) fmt.Stringer { return WCOpcode(v) },
	"WCFlags":        func(v int64) fmt.Stringer { return WCFlags(v) },
	"WCFields":       func(v int64) fmt.Stringer { return WCFields(v) },
	"PortState":      func(v int64) fmt.Stringer { return PortState(v) },
	"PhysState":      func(v int64) fmt.Stringer { return PhysState(v) },
	"LinkLayer":      func(v int64) fmt.Stringer { return LinkLayer(v) },
	"GIDType":        func(v int64) fmt.Stringer { return GIDType(v) },
	"NodeType":       func(v int64) fmt.Stringer { return NodeType(v) },
	"TransportType":  func(v int64) fmt.Stringer { return TransportType(v) },
	"AtomicCap":      func(v int64) fmt.Stringer { return AtomicCap(v) },
	"MigState":       func(v int64) fmt.Stringer { return MigState(v) },
	"SRQType":        func(v int64) fmt.Stringer { return SRQType(v) },
	"AsyncEventType": func(v int64) fmt.Stringer { return AsyncEventType(v) },
	"QPAttrMask":     func(v int64) fmt.Stringer { return QPAttrMask(v) },
	"DeviceCapFlags": func(v int64) fmt.Stringer { return DeviceCapFlags(v) },
	"PortCap":        func(v int64) fmt.Stringer { return PortCap(v) },
	"PortCap2":       func(v int64) fmt.Stringer { return PortCap2(v) },
	"Rate":           func(v int64) fmt.Stringer { return Rate(v) },
}

// Every constant prints as its Go name without the prefix of its type; states
// are in capitals, as everybody writes them.
func TestEnums_String(t *testing.T) {
	for _, c := range enumConsts(t, enumFiles...) {
		if c.goName == "AccessOptional" || c.goName == "FieldsStandard" {
			continue
		}
		mk := stringers[c.typ]
		if mk == nil {
			t.Errorf("type %s is not tested", c.typ)
			continue
		}
		got := mk(c.value).String()
		name := c.goName
		if c.typ == "QPState" {
			name = strings.ToUpper(name)
		}
		if c.typ == "Rate" {
			name = strings.NewReplacer("_", ".", "Gbps", " Gb/s").Replace(name)
		}
		prefix, ok := strings.CutSuffix(name, got)
		if got == "" || !ok || !strings.Contains("STATE Op WC Port Phys Link GIDType Node Transport Atomic Mig SRQ "+
			"Event Mask Device PortCap PortCap2 MTU Field Rate", prefix) {
			t.Errorf("%s prints %q", c.goName, got)
		}
	}
}

func TestEnums_Unknown(t *testing.T) {
	tests := []struct {
		v    fmt.Stringer
		want string
	}{
		{QPState(17), "QPState(17)"},
		{QPType(0), "QPType(0)"},
		{QPType(5), "QPType(5)"},
		{QPType(1 << 31), "QPType(2147483648)"},
		{MTU(0), "MTU(0)"},
		{Opcode(12), "Opcode(12)"},
		{WCStatus(99), "WCStatus(99)"},
		{WCOpcode(64), "WCOpcode(64)"},
		{WCOpcode(^uint32(0)), "WCOpcode(4294967295)"},
		{PortState(6), "PortState(6)"},
		{PhysState(0), "PhysState(0)"},
		{LinkLayer(255), "LinkLayer(255)"},
		{GIDType(3), "GIDType(3)"},
		{NodeType(-2), "NodeType(-2)"},
		{NodeUnknown, "Unknown"},
		{TransportType(9), "TransportType(9)"},
		{TransportUnknown, "Unknown"},
		{AtomicCap(3), "AtomicCap(3)"},
		{MigState(3), "MigState(3)"},
		{SRQType(3), "SRQType(3)"},
		{AsyncEventType(21), "AsyncEventType(21)"},
		{SendFlags(0), "0"},
		{Signaled, "Signaled"},
		{Fence | Signaled | Inline, "Fence|Signaled|Inline"},
		{Signaled | 1<<9 | 1<<31, "Signaled|0x80000200"},
		{SendFlags(1 << 30), "0x40000000"},
		{LocalWrite | RemoteRead | RelaxedOrdering, "LocalWrite|RemoteRead|RelaxedOrdering"},
		{MaskState | MaskRateLimit | 1<<21, "State|RateLimit|0x200000"},
		{DeviceXRC | DeviceCCDMABounce | 1<<63, "XRC|CCDMABounce|0x8000000000000000"},
		{WCGRH | WCWithImm, "GRH|WithImm"},
	}
	for _, tt := range tests {
		if got := tt.v.String(); got != tt.want {
			t.Errorf("%T: got %q, want %q", tt.v, got, tt.want)
		}
	}
}

func TestMTU_Bytes(t *testing.T) {
	for m, want := range map[MTU]int{0: 0, MTU256: 256, MTU512: 512, MTU1024: 1024, MTU2048: 2048, MTU4096: 4096,
		6: 0, ^MTU(0): 0} {
		if got := m.Bytes(); got != want {
			t.Errorf("MTU(%d).Bytes() = %d, want %d", uint32(m), got, want)
		}
	}
	tests := []struct {
		n    int
		want MTU
		ok   bool
	}{{-1, 0, false}, {0, 0, false}, {255, 0, false}, {256, MTU256, true}, {1500, MTU1024, true}, {4095, MTU2048, true},
		{4096, MTU4096, true}, {9000, MTU4096, true}}
	for _, tt := range tests {
		if m, ok := MTUFromBytes(tt.n); m != tt.want || ok != tt.ok {
			t.Errorf("MTUFromBytes(%d) = %v, %v; want %v, %v", tt.n, m, ok, tt.want, tt.ok)
		}
	}
}

func TestWCOpcode_IsRecv(t *testing.T) {
	for _, o := range []WCOpcode{WCRecv, WCRecvImm, WCTMRecv} {
		if !o.IsRecv() {
			t.Errorf("%v is a receive", o)
		}
	}
	for _, o := range []WCOpcode{WCSend, WCWrite, WCAtomicWrite} {
		if o.IsRecv() {
			t.Errorf("%v is no receive", o)
		}
	}
}
