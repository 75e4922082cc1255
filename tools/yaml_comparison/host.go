// Evaluate a Pulumi YAML program with pulumi-yaml itself, without a provider: every property is of any type.
// Prints the inputs of each resource as JSON. The argument is the program's folder, CONF its settings as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/blang/semver"
	"github.com/pulumi/pulumi-yaml/pkg/pulumiyaml"
	"github.com/pulumi/pulumi/pkg/v3/codegen/schema"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

type pkg struct{ name string }

func names() []*schema.Property {
	list := []string{"value", "tags", "arn", "name", "region", "names", "id", "json"}
	for i := 0; i < 60; i++ {
		list = append(list, fmt.Sprintf("e%d", i))
	}
	props := []*schema.Property{}
	for _, n := range list {
		t := schema.Type(schema.AnyType)
		if n == "tags" {
			t = &schema.MapType{ElementType: schema.AnyType}
		}
		if n == "names" {
			t = &schema.ArrayType{ElementType: schema.AnyType}
		}
		props = append(props, &schema.Property{Name: n, Type: &schema.OptionalType{ElementType: t}})
	}
	return props
}
func (p pkg) Name() string             { return p.name }
func (p pkg) Version() *semver.Version { return nil }
func full(t string) string {
	parts := strings.Split(t, ":")
	if parts[0] == "pulumi" || strings.Contains(t, "/") {
		return t
	}
	if len(parts) == 2 {
		parts = []string{parts[0], "index", parts[1]}
	}
	return parts[0] + ":" + parts[1] + "/" + strings.ToLower(parts[2][:1]) + parts[2][1:] + ":" + parts[2]
}
func (p pkg) ResolveResource(t string) (pulumiyaml.ResourceTypeToken, error) {
	return pulumiyaml.ResourceTypeToken(full(t)), nil
}
func (p pkg) ResolveFunction(t string) (pulumiyaml.FunctionTypeToken, error) {
	return pulumiyaml.FunctionTypeToken(full(t)), nil
}
func (p pkg) IsComponent(pulumiyaml.ResourceTypeToken) (bool, error) { return false, nil }
func (p pkg) IsResourcePropertySecret(pulumiyaml.ResourceTypeToken, string) (bool, error) {
	return false, nil
}
func (p pkg) ResourceTypeHint(t pulumiyaml.ResourceTypeToken) *schema.ResourceType {
	return &schema.ResourceType{Token: string(t), Resource: &schema.Resource{Token: string(t), InputProperties: names(), Properties: names()}}
}
func (p pkg) FunctionTypeHint(t pulumiyaml.FunctionTypeToken) *schema.Function {
	o := &schema.ObjectType{Token: string(t), Properties: names()}
	return &schema.Function{Token: string(t), Inputs: o, Outputs: o, ReturnType: o}
}
func (p pkg) ResourceConstants(pulumiyaml.ResourceTypeToken) map[string]interface{} { return nil }

type loader struct{}

func (loader) LoadPackage(_ context.Context, d *schema.PackageDescriptor) (pulumiyaml.Package, error) {
	if d.Name == "pulumi" {
		return pulumiyaml.NewResourcePackage(schema.DefaultPulumiPackage.Reference()), nil
	}
	return pkg{d.Name}, nil
}
func (loader) Close() {}

type mocks struct{ seen map[string]interface{} }

func plain(v resource.PropertyValue) interface{} {
	switch {
	case v.IsComputed() || (v.IsOutput() && !v.OutputValue().Known):
		return "UNKNOWN"
	case v.IsSecret():
		return "SECRET"
	case v.IsOutput() && v.OutputValue().Secret:
		return "SECRET"
	case v.IsOutput():
		return plain(v.OutputValue().Element)
	case v.IsObject():
		m := map[string]interface{}{}
		for k, x := range v.ObjectValue() {
			m[string(k)] = plain(x)
		}
		return m
	case v.IsArray():
		l := []interface{}{}
		for _, x := range v.ArrayValue() {
			l = append(l, plain(x))
		}
		return l
	}
	return v.V
}
func (m *mocks) NewResource(a pulumi.MockResourceArgs) (string, resource.PropertyMap, error) {
	m.seen[a.Name] = plain(resource.NewObjectProperty(a.Inputs))
	if a.ID != "" {
		return a.ID, a.Inputs, nil
	}
	return "", a.Inputs, nil
}
func (m *mocks) Call(a pulumi.MockCallArgs) (resource.PropertyMap, error) {
	return resource.NewPropertyMapFromMap(map[string]interface{}{"names": []interface{}{"us-west-2a", "us-west-2b"}, "id": "<" + a.Token + ">"}), nil
}

func main() {
	m := &mocks{map[string]interface{}{}}
	t, diags, err := pulumiyaml.LoadDir(os.Args[1])
	if err != nil || diags.HasErrors() {
		fmt.Println("LOAD", err, diags)
		os.Exit(1)
	}
	conf := map[string]string{}
	json.Unmarshal([]byte(os.Getenv("CONF")), &conf)
	props := resource.PropertyMap{}
	for k, v := range conf {
		var x interface{}
		if json.Unmarshal([]byte(v), &x) == nil {
			props[resource.PropertyKey(k)] = resource.NewPropertyValue(x)
		} else {
			props[resource.PropertyKey(k)] = resource.NewStringProperty(v)
		}
	}
	os.Setenv("PULUMI_CONFIG", os.Getenv("CONF"))
	err = pulumi.RunErr(func(ctx *pulumi.Context) error {
		return pulumiyaml.RunTemplate(ctx, t, props, loader{})
	}, pulumi.WithMocks("web", "dev", m), func(i *pulumi.RunInfo) { i.DryRun = true; i.Config = conf; i.ConfigSecretKeys = []string{"web:secret"} })
	b, _ := json.MarshalIndent(m.seen, "", " ")
	fmt.Println(string(b))
	if err != nil {
		fmt.Println("ERR", err)
	}
}
