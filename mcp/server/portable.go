package server

import "strings"

// Some clients do not accept dots in the names of tools. For them a tool is shown with underscores instead of dots,
// unless another tool has that name. Calls may use both names.

// portable returns a name with underscores instead of dots.
func portable(name string) string { return strings.ReplaceAll(name, ".", "_") }

// portableNames returns withoutDots if Offer.PortableNames is set, nil otherwise.
func (v *toolView) portableNames() map[string]string {
	if !v.cfg.Offer.PortableNames {
		return nil
	}
	return v.withoutDots()
}

// withoutDots maps portable names to catalogue names, for all tools with dots in their names. The map must not be changed.
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
		if _, taken := shown[other]; !taken { // names are sorted, so that the choice is stable
			shown[other] = name
		}
	}
	return shown
}

// shownName returns the name with which a tool is listed; shown maps portable names to catalogue names.
func shownName(name string, shown map[string]string) string {
	if other := portable(name); shown[other] == name {
		return other
	}
	return name
}

// plainName returns the catalogue name of a tool that was called with either of its names.
func (v *toolView) plainName(name string) string {
	if _, ok := v.cfg.Catalogue.Get(name); ok || !v.cfg.Offer.PortableNames {
		return name
	}
	if plain, ok := v.portableNames()[name]; ok {
		return plain
	}
	return name
}
