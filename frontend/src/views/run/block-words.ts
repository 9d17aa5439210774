/** What a block's state is called, and stages by short names. */
import { diskOf, gradOf, hostOf, weightOf } from "../../canvas/residency-cells";
import { type Key, t } from "../../i18n/language.svelte";

/** Where a block is and what happens to it, in words. */
export function blockState(code: number): string {
  const [host, weight, grad] = [hostOf(code), weightOf(code), gradOf(code)];
  const place: Key =
    weight === 3
      ? "block.inuse"
      : weight === 2
        ? "block.device"
        : weight === 1
          ? "block.arriving"
          : host === 1
            ? "block.hostarriving"
            : host >= 2
              ? "block.host"
              : "block.absent";
  const more: string[] = [];
  if (grad > 0) more.push(t(`block.grad.${grad}` as Key));
  if (host === 3) more.push(t("block.unapplied"));
  const disk = diskOf(code);
  if (disk > 0) more.push(t(`block.disk.${disk}` as Key));
  return [t(place), ...more].join(" · ");
}

/** A stage's name without what every name has. */
export function stageLabel(name: string): string {
  return name.replace(/^layers?\.(\d+)$/, "L$1");
}
