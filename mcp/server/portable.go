package server

import "strings"

// Some hosts take no dots in the names of tools. For them a tool is shown with underscores in their place, as long
// as that is the name of no other tool; both names can be called.

func portable(name string) string { return strings.ReplaceAll(name, ".", "_") }

// portableNames are the tools with dots that are shown under another name, by that name, to clients that name no profile.
func (v *toolView) portableNames() map[string]string {
	if !v.cfg.PortableNames {
		return nil
	}
	return v.withoutDots()
}

// withoutDots are the tools with dots that can be shown under another name, by that name. Nobody changes them.
func (v *toolView) withoutDots() map[string]string { return v.descriptions.namesOf(v.findWithoutDots) }

func (v *toolView) findWithoutDots() map[string]string {
	shown := map[string]string{}
	for _, name := range v.cfg.Catalogue.Names() {
		other := portable(name)
		if other == name {
			continue
		}
		if _, taken := v.cfg.Catalogue.Get(other); taken {
			continue
		}
		if _, taken := shown[other]; !taken { // names come in order: it is always the same one
			shown[other] = name
		}
	}
	return shown
}

// shownName is the name under which a tool is listed.
func shownName(name string, shown map[string]string) string {
	if other := portable(name); shown[other] == name {
		return other
	}
	return name
}

// plainName is the name in the catalogue of a tool that somebody calls.
func (v *toolView) plainName(name string) string {
	if _, ok := v.cfg.Catalogue.Get(name); ok || !v.cfg.PortableNames {
		return name
	}
	if plain, ok := v.portableNames()[name]; ok {
		return plain
	}
	return name
}
