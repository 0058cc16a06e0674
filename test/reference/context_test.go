package reference

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// otherContexts returns where a package uses ctx for something other than a context.Context: fields and parameters of
// other types, and a device in the code of its comment.
func otherContexts(p *pkg) []string {
	var out []string
	for _, f := range p.files {
		ast.Inspect(f, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok {
				return true
			}
			sel, ok := field.Type.(*ast.SelectorExpr)
			isContext := ok && sel.Sel.Name == "Context"
			for _, name := range field.Names {
				if name.Name == "ctx" && !isContext {
					out = append(out, p.ImportPath+": a field or parameter ctx is not a context.Context")
				}
			}
			return true
		})
	}
	device := regexp.MustCompile(`\bctx, err :?= |\bctx\.(Alloc|Create|Open|Query)\w+\(`)
	for line := range strings.Lines(p.Doc) {
		if device.MatchString(line) {
			out = append(out, p.ImportPath+"/doc.go: ctx is a device in "+strings.TrimSpace(line))
		}
	}
	return out
}

// TestContextNames holds that ctx is a context.Context everywhere. An open device is dev.
func TestContextNames(t *testing.T) {
	for _, dir := range public {
		for _, s := range otherContexts(load(t, dir)) {
			t.Error(s)
		}
	}
	d := *load(t, "efadv").Package
	p := &pkg{Package: &d}
	p.Doc += "\n\tctx, err := id.Verbs()\n\tcq, err := ctx.CreateCQ(1, nil)\n\tn, err := cq.Wait(ctx, wcs)\n"
	p.files = append(p.files, &ast.File{Name: ast.NewIdent("efadv"), Decls: []ast.Decl{&ast.FuncDecl{
		Name: ast.NewIdent("f"), Type: &ast.FuncType{Params: &ast.FieldList{List: []*ast.Field{
			{Names: []*ast.Ident{ast.NewIdent("ctx")}, Type: ast.NewIdent("uintptr")}}}}}}})
	if got := otherContexts(p); len(got) != 3 {
		t.Errorf("found %q", got)
	}
}
